"""Calls that must not stop a ticker once patched: ``python -m tests.patches.targets NAME`` waits in one way
and prints how well.

Objects are made before the patch, so that it is shown that they work, too. Prints JSON: seconds, worst_stall
(of a 5 ms ticker), result.
"""

import asyncio
import concurrent.futures
import json
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from socket import create_connection, create_server
from time import sleep

from tests.patches.stalls import WAIT, Ticker

LOCK, RLOCK, CONDITION, SIMPLE = (
    threading.Lock(),
    threading.RLock(),
    threading.Condition(),
    queue.SimpleQueue(),
)
LEFT, RIGHT = (
    socket.socketpair() if __name__ == "__main__" else (None, None)
)  # only the names are imported elsewhere

import syncless  # noqa: E402
from syncless.patches import patch_all  # noqa: E402
from tests.patches.io_targets import IO_TARGETS, STALLS  # noqa: E402
from tests.patches.key_targets import KEY_TARGETS  # noqa: E402


def later(function, *args):
    threading.Timer(WAIT, function, args).start()


def the_thread(target):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return thread.is_alive()


def lock():
    LOCK.acquire()
    later(LOCK.release)
    with LOCK:
        return LOCK.locked()


def held(thing):
    def hold():
        with thing:
            time.sleep(WAIT)

    threading.Thread(target=hold).start()
    time.sleep(0.01)
    with thing:
        return "mine"


def rlock_twice():
    with RLOCK:
        return held_by_others(RLOCK)


def held_by_others(thing):
    """Another thread cannot have an RLock that this one has, however often it tries."""
    got = []
    thread = threading.Thread(target=lambda: got.append(thing.acquire(timeout=WAIT)))
    thread.start()
    thread.join()
    return got


def condition():
    def notify():
        with CONDITION:
            CONDITION.notify()

    with CONDITION:
        later(notify)
        return CONDITION.wait(60)


def barrier():
    made = threading.Barrier(2)
    later(made.wait)
    return made.wait() in (0, 1)


def then(start, wait):
    later(*start)
    return wait()


def udp():
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    two = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    later(two.sendto, b"x", one.getsockname())
    data, _ = one.recvfrom(10)
    one.close()
    time.sleep(0)
    return data.decode()


def accept():
    with create_server(("127.0.0.1", 0)) as server:
        later(lambda: create_connection(server.getsockname()).close())
        server.accept()[0].close()
    return "accepted"


def makefile():
    later(RIGHT.send, b"line\n")
    with LEFT.makefile("r") as lines:
        return lines.readline()


def socket_timeout():
    LEFT.settimeout(WAIT)
    try:
        LEFT.recv(1)
    except TimeoutError:
        return "timed out"
    finally:
        LEFT.settimeout(None)


def poll():
    watched = select.poll()
    watched.register(LEFT, select.POLLIN)
    later(RIGHT.send, b"x")
    return [fd == LEFT.fileno() for fd, _ in watched.poll()]


def epoll():
    with select.epoll() as watched:
        watched.register(LEFT, select.EPOLLIN)
        later(RIGHT.send, b"x")
        return [fd == LEFT.fileno() for fd, _ in watched.poll()]


def selector(kind):
    with kind() as chosen:
        chosen.register(LEFT, selectors.EVENT_READ)
        later(RIGHT.send, b"x")
        return len(chosen.select())


def executor():
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        return list(pool.map(lambda number: (time.sleep(WAIT), number)[1], range(5)))


async def nap():
    await asyncio.sleep(WAIT)
    return "slept"


def asyncio_in_three():
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(asyncio.run(nap()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def asyncio_that_blocks():
    """Coroutines that call what blocks: the tasklet parks in the middle of its loop, and another one runs a
    loop of its own."""

    async def bad():
        time.sleep(WAIT / 2)
        generator = numbers()
        return [number async for number in generator], asyncio.get_running_loop() is not None

    async def numbers():
        for number in range(3):
            time.sleep(WAIT / 6)
            yield number

    seen = []
    threads = [threading.Thread(target=lambda: seen.append(asyncio.run(bad()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def fork_and(wait):
    pid = os.fork()
    if pid == 0:
        time.sleep(WAIT)
        os._exit(3)
    return wait(pid)


def sigwait():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    later(os.kill, os.getpid(), signal.SIGUSR1)
    return signal.sigwait([signal.SIGUSR1]).name


def process(method):
    child = multiprocessing.get_context(method).Process(target=time.sleep, args=(WAIT,))
    child.start()
    child.join()
    return child.exitcode


def fork_method():
    return multiprocessing.get_context("fork")


def square(number):
    time.sleep(WAIT)
    return number * number


def process_pool():
    with fork_method().Pool(2) as pool:
        return pool.map(square, range(4), chunksize=1)


def process_executor():
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork_method()) as pool:
        return list(pool.map(square, range(4)))


def process_queue():
    made = fork_method().Queue()
    child = fork_method().Process(target=lambda: (time.sleep(WAIT), made.put("x" * 100_000)))
    child.start()
    got = made.get()
    child.join()
    return len(got)


def process_pipe(duplex):
    mine, other = fork_method().Pipe(duplex)
    child = fork_method().Process(target=lambda: (time.sleep(WAIT), other.send("x" * 1_000_000)))
    child.start()
    got = mine.recv()
    child.join()
    return len(got)


def process_pipe_full():
    """The other end begins to read late: a megabyte does not fit into a pipe."""
    other, mine = fork_method().Pipe(False)
    child = fork_method().Process(target=lambda: (time.sleep(WAIT), os._exit(len(other.recv()) // 1_000_000)))
    child.start()
    mine.send("x" * 1_000_000)
    child.join()
    return child.exitcode


def process_lock(kind):
    lock = getattr(fork_method(), kind)()
    held = fork_method().Event()

    def hold():
        with lock:
            held.set()
            time.sleep(WAIT)

    child = fork_method().Process(target=hold)
    child.start()
    held.wait()
    with lock:
        child.join()
        return child.exitcode


def process_rlock_twice():
    lock = fork_method().RLock()
    with lock, lock:
        return held_by_others(lock)


def pause():
    seen = []
    signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    later(os.kill, os.getpid(), signal.SIGUSR1)
    signal.pause()
    return len(seen)


def pipe(read):
    left, right = os.pipe()
    later(os.write, right, b"line\n")
    later(os.close, right)
    with open(left, "rb") as file:
        return read(file)


def fill_pipe(write):
    """Writes a megabyte into a pipe from which a child reads late."""
    left, right = os.pipe()
    child = subprocess.Popen(f"sleep {WAIT}; wc -c", shell=True, stdin=left, stdout=subprocess.PIPE)
    os.close(left)
    write(right, b"x" * 1_000_000)
    os.close(right)
    with child:
        return int(child.stdout.read())


def spawned():
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"sleep {WAIT}; exit 3"], os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def terminal():
    import pty

    pid, fd = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", f"sleep {WAIT}; echo here"])
    got = os.read(fd, 100)
    os.waitpid(pid, 0)
    return got.decode().strip()


def wait_all():
    with socket.socketpair()[0] as one:
        one.close()
    later(RIGHT.sendall, b"x" * 5)
    RIGHT.send(b"y" * 5)
    return LEFT.recv(10, socket.MSG_WAITALL).decode()


def full_backlog():
    """connect() of a UNIX socket waits while the listener's backlog is full."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/s")
        server.listen(0)
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        clients[0].connect(f"{folder}/s")
        later(server.accept)
        clients[1].connect(f"{folder}/s")
        return "connected"


def much(send):
    """Fifty megabytes through a socket; the reader begins late and takes all of them."""
    got = []

    def read():
        time.sleep(WAIT)
        while piece := RIGHT.recv(1 << 16):
            got.append(len(piece))

    reader = threading.Thread(target=read)
    reader.start()
    send(LEFT)
    LEFT.shutdown(socket.SHUT_WR)
    reader.join()
    return sum(got)


def send_file(sock):
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.truncate(50_000_000)
        sock.sendfile(file)


def locals_of_their_own():
    mine = threading.local()
    mine.value = "main"
    seen = []

    def look():
        seen.append(hasattr(mine, "value"))
        mine.value = "other"
        time.sleep(WAIT)
        seen.append(mine.value)

    the_thread(look)
    return [*seen, mine.value]


def interpreter():
    """A sub-interpreter, by the functions below those of the standard library."""
    interpreters = import_module("_interpreters")
    one = interpreters.create()
    interpreters.run_string(one, f"import time; time.sleep({WAIT})")
    interpreters.destroy(one)
    return "destroyed"


TARGETS = {
    "time.sleep": (lambda: time.sleep(WAIT), None),
    "from time import sleep": (lambda: sleep(WAIT), None),
    "Thread.join": (lambda: the_thread(lambda: time.sleep(WAIT)), False),
    "Lock made earlier": (lock, True),
    "RLock made earlier": (lambda: held(RLOCK), "mine"),
    "RLock belongs to one thread": (rlock_twice, [False]),
    "Condition": (condition, True),
    "Semaphore": (lambda: held(threading.Semaphore()), "mine"),
    "Event": (lambda: (lambda event: then((event.set,), event.wait))(threading.Event()), True),
    "Event, timeout": (lambda: threading.Event().wait(WAIT), False),
    "Barrier": (barrier, True),
    "SimpleQueue made earlier": (lambda: then((SIMPLE.put, 5), SIMPLE.get), 5),
    "Queue": (lambda: (lambda made: then((made.put, 5), made.get))(queue.Queue()), 5),
    "ThreadPoolExecutor": (executor, [0, 1, 2, 3, 4]),
    "threading.local": (locals_of_their_own, [False, "other", "main"]),
    "recv": (lambda: then((RIGHT.send, b"x"), lambda: LEFT.recv(10)).decode(), "x"),
    "recv, timeout": (socket_timeout, "timed out"),
    "recv_into": (lambda: then((RIGHT.send, b"x"), lambda: LEFT.recv_into(bytearray(10))), 1),
    "recvmsg": (lambda: then((RIGHT.send, b"x"), lambda: LEFT.recvmsg(10)[0].decode()), "x"),
    "recvfrom": (udp, "x"),
    "accept": (accept, "accepted"),
    "makefile": (makefile, "line\n"),
    "select": (lambda: then((RIGHT.send, b"x"), lambda: len(select.select([LEFT], [], [])[0])), 1),
    "select, timeout": (lambda: len(select.select([LEFT], [], [], WAIT)[0]), 0),
    "poll": (poll, [True]),
    "epoll": (epoll, [True]),
    "SelectSelector": (lambda: selector(selectors.SelectSelector), 1),
    "PollSelector": (lambda: selector(selectors.PollSelector), 1),
    "EpollSelector": (lambda: selector(selectors.EpollSelector), 1),
    "asyncio.run": (lambda: asyncio.run(nap()), "slept"),
    "asyncio.run in three threads": (asyncio_in_three, ["slept"] * 3),
    "asyncio.run of what blocks": (asyncio_that_blocks, [[[0, 1, 2], True]] * 3),
    "subprocess.run": (lambda: subprocess.run(["sleep", str(WAIT)]).returncode, 0),
    "subprocess, output": (
        lambda: subprocess.run(f"sleep {WAIT}; echo x", shell=True, capture_output=True, text=True).stdout,
        "x\n",
    ),
    "Popen.wait, timeout": (lambda: wait_too_short(), "timed out"),
    "os.system": (lambda: os.system(f"sleep {WAIT}"), 0),
    "os.waitpid": (lambda: fork_and(lambda pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])), 3),
    "os.wait": (lambda: fork_and(lambda pid: os.wait()[0] == pid), True),
    "os.wait4": (lambda: fork_and(lambda pid: os.wait4(pid, 0)[0] == pid), True),
    "os.waitid": (lambda: fork_and(lambda pid: os.waitid(os.P_PID, pid, os.WEXITED).si_status), 3),
    "multiprocessing.Process": (lambda: process("fork"), 0),
    "multiprocessing.Process, spawn": (lambda: process("spawn"), 0),
    "multiprocessing.Process, forkserver": (lambda: process("forkserver"), 0),
    "sigwait": (sigwait, "SIGUSR1"),
    "sigtimedwait": (lambda: signal.sigtimedwait([signal.SIGUSR2], WAIT), None),
    "pause": (pause, 1),
    "recv, MSG_WAITALL": (wait_all, "yyyyyxxxxx"),
    "connect, UNIX, backlog full": (full_backlog, "connected"),
    "sendall, 50 MB": (lambda: much(lambda sock: sock.sendall(bytes(50_000_000))), 50_000_000),
    "sendfile, 50 MB": (lambda: much(send_file), 50_000_000),
    "sendmsg": (lambda: much(lambda sock: sock.sendmsg([b"x" * 50_000])), 50_000),
    "subprocess, one pipe": (
        lambda: subprocess.check_output(["sh", "-c", f"sleep {WAIT}; echo x"], text=True),
        "x\n",
    ),
    "os.popen": (lambda: os.popen(f"sleep {WAIT}; echo x").read(), "x\n"),
    "os.posix_spawn": (spawned, 3),
    "pty": (terminal, "here"),
    "os.read": (lambda: pipe(lambda file: os.read(file.fileno(), 100).decode()), "line\n"),
    "os.readv": (lambda: pipe(lambda file: os.readv(file.fileno(), [bytearray(2), bytearray(10)])), 5),
    "file.read": (lambda: pipe(lambda file: file.read().decode()), "line\n"),
    "file.readline": (lambda: pipe(lambda file: file.readline().decode()), "line\n"),
    "FileIO.readall": (lambda: pipe(lambda file: file.raw.readall().decode()), "line\n"),
    "os.write": (lambda: fill_pipe(os.write), 1_000_000),
    "os.writev": (lambda: fill_pipe(lambda fd, data: os.writev(fd, [data, b""])), 1_000_000),
    "multiprocessing.Pool": (process_pool, [0, 1, 4, 9]),
    "ProcessPoolExecutor": (process_executor, [0, 1, 4, 9]),
    "multiprocessing.Queue": (process_queue, 100_000),
    "multiprocessing.Pipe": (lambda: process_pipe(False), 1_000_000),
    "multiprocessing.Pipe, both ways": (lambda: process_pipe(True), 1_000_000),
    "multiprocessing.Pipe, full": (process_pipe_full, 1),
    **({"sub-interpreter": (interpreter, "destroyed")} if sys.version_info >= (3, 13) else {}),
    "multiprocessing.Lock": (lambda: process_lock("Lock"), 0),
    "multiprocessing.RLock": (lambda: process_lock("RLock"), 0),
    "multiprocessing.RLock belongs to one thread": (process_rlock_twice, [False]),
    **IO_TARGETS,
    **KEY_TARGETS,
    "getaddrinfo": (lambda: (time.sleep(WAIT), len(socket.getaddrinfo("127.0.0.1", 80)) > 0)[1], True),
}


COMPUTE = {
    "long computations",
    "long computations, the rest",
    "sqlite3, a long statement",
    "sqlite3, slow rows",
    *KEY_TARGETS,
}
"""How long these take is the machine's affair; the others end when what they wait for has come."""


def wait_too_short():
    child = subprocess.Popen(["sleep", "60"])
    try:
        child.wait(timeout=WAIT)
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        child.kill()
        child.wait()


def main(name):
    patch_all(cpu="long computations" in name)
    ticker = Ticker(computes=name in COMPUTE)
    started = time.perf_counter()
    result = TARGETS[name][0]()
    seconds = time.perf_counter() - started
    syncless.sleep(0.01)  # in which the ticker sees what has just ended
    print(json.dumps({"seconds": seconds, "worst_stall": max(ticker.worst, *STALLS, 0.0), "result": result}))


if __name__ == "__main__":
    main(sys.argv[1])
