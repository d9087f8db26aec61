"""The patch layer itself: it changes and restores names, in any order; and `python -m syncless run`."""

import py_compile
import signal
import subprocess
import sys
import zipfile

import pytest

import syncless
from tests.programs import run_python, run_unchecked


def test_real_threads_go_on_beside_it():
    """Threads of before stay threads; locks work between them and tasklets."""
    done = run_unchecked("""
import threading, time
lock, seen, ticks, go = threading.Lock(), [], [], threading.Event()
def real():
    go.wait()
    with lock:
        seen.append("real")
        goal = len(ticks) + 10
        while len(ticks) < goal:    # for ever, if main kept its thread while it waits for the lock
            time.sleep(0.001)
thread = threading.Thread(target=real); thread.start()
import syncless
from syncless.patches import patch_all
patch_all()
def tick():
    while True:
        syncless.sleep(0.005); ticks.append(1)
syncless.spawn(tick)
lock.acquire(); go.set()
time.sleep(0.05)
assert seen == []
lock.release()
while not seen:
    time.sleep(0.001)
with lock:                      # the real thread has it: a tasklet waits for an OS thread
    seen.append("main")
thread.join()
assert seen == ["real", "main"], seen
assert syncless.run_in_thread(lambda: threading.get_ident()) != threading.get_ident()
print("together")
""")
    assert done.stdout == "together\n", done.stderr


def test_threads_in_numbers():
    done = run_unchecked("""
from syncless.patches import patch_all
patch_all()
import threading, time, logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
lock, count, idents, all_started = threading.Lock(), 0, set(), threading.Event()
def work():
    global count
    idents.add(threading.get_ident())
    for _ in range(5):
        with lock:
            seen = count
            time.sleep(0)
            count = seen + 1
    all_started.wait()
threads = [threading.Thread(target=work) for _ in range(1000)]
for thread in threads: thread.start()
assert threading.active_count() == 1001
all_started.set()
for thread in threads: thread.join()
assert count == 5000 and len(idents) == 1000 and threading.active_count() == 1
import syncless
tasklets = [syncless.spawn(logging.warning, "x") for _ in range(100)]
syncless.join_all(tasklets)
assert len(threading._active) == 1, threading._active
print("done")
""")
    assert done.stdout.count("x\n") == 100 and done.stdout.endswith("done\n"), done.stderr


PROGRAM = """
import sys, threading, time
if __name__ == "__main__":
    def late():
        time.sleep(0.2)
        print("late", flush=True)
    threading.Thread(target=late).start()           # the interpreter waits for it
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()      # and not for this one
    print(sys.argv, __name__, "syncless.patches" in sys.modules, flush=True)
    if "exit" in sys.argv:
        sys.exit(7)
    if "wait" in sys.argv:
        time.sleep(3600)
"""


def test_running_an_unchanged_program(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    for command in (["prog.py"], ["-m", "prog"]):
        done = subprocess.run(
            [sys.executable, "-m", "syncless", "run", *command, "a", "exit"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        first, second = done.stdout.splitlines()
        assert done.returncode == 7 and first.endswith("'a', 'exit'] __main__ True") and second == "late", (
            done.stderr
        )
        assert not done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "syncless", "run", "no.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "no such program: no.py" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "syncless", "run"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and "usage:" in done.stderr


MAIN = """
import atexit, multiprocessing, pickle, sys, threading
class Job:
    pass
WORD = "word"
def tell(when):
    main = sys.modules["__main__"]
    kind = type(pickle.loads(pickle.dumps(Job())))
    print(when, kind is Job, main.WORD, main is sys.modules[__name__], WORD, flush=True)
def at_exit():
    tell("atexit")
def later():
    threading.main_thread().join()
    tell("thread")
def work(value):
    return value + 1
if __name__ == "__main__":
    atexit.register(at_exit)
    threading.Thread(target=later).start()
    if __file__.endswith("prog.py"):  # a spawned process finds no others, unpatched neither
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1, 2]))
    names = {name: value for name, value in globals().items() if name in ("__name__", "__file__", "__doc__")}
    print(names, sys.argv[1:], __package__ or "", __builtins__)
"""


@pytest.mark.parametrize("how", ["script", "module", "folder", "archive", "compiled"])
def test_program_stays_the_main_module_until_the_end(tmp_path, how):
    file = tmp_path / "prog.py"
    file.write_text(MAIN)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/__main__.py").write_text(MAIN)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", MAIN)
    py_compile.compile(str(file), str(tmp_path / "compiled.pyc"))
    program = {
        "script": ["prog.py"],
        "module": ["-m", "prog"],
        "folder": ["folder"],
        "archive": ["archive.pyz"],
        "compiled": ["compiled.pyc"],
    }[how]

    def told(*command):
        done = subprocess.run(
            [sys.executable, *command, *program, "argument"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout

    assert told("-m", "syncless", "run") == told()


def test_ctrl_c_in_a_program(tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "syncless", "run", "prog.py", "wait"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = syncless.run_in_thread(process.communicate)
    assert process.returncode in (-signal.SIGINT, 130, 1) and "KeyboardInterrupt" in errors


def test_tls_between_threads(tmp_path):
    pytest.importorskip("trustme", reason="trustme makes the certificate of this test: pip install trustme")
    done = run_unchecked(
        """
import socket, ssl, threading, time, trustme
authority = trustme.CA()
server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
authority.issue_cert("localhost").configure_cert(server_context)
authority.configure_trust(client_context)
from syncless.patches import patch_all
patch_all()
blob = bytes(range(256)) * 20000
def talk(sock):
    with server_context.wrap_socket(sock, server_side=True) as tls:
        size = int(tls.recv(100))
        got = bytearray()
        while len(got) < size:
            got += tls.recv(65536)
        time.sleep(0.1)
        tls.sendall(got)
        tls.unwrap().close()
def serve(listener):
    while True:
        threading.Thread(target=talk, args=listener.accept()[:1], daemon=True).start()
def visit(port, results):
    with socket.create_connection(("127.0.0.1", port)) as sock:
        tls = client_context.wrap_socket(sock, server_hostname="localhost")
        tls.sendall(b"%d" % len(blob))
        time.sleep(0.01)
        tls.sendall(blob)
        got = bytearray()
        while len(got) < len(blob):
            got += tls.recv(65536)
        results.append(got == blob)
        tls.settimeout(0.05)
        try:
            tls.recv(1)
        except (TimeoutError, ssl.SSLError):
            pass
        tls.close()
with socket.create_server(("127.0.0.1", 0)) as listener:
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    results = []
    threads = [threading.Thread(target=visit, args=(listener.getsockname()[1], results)) for _ in range(20)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(results == [True] * 20)
"""
    )
    assert done.stdout == "True\n", done.stderr


def test_the_server_says_when_an_application_would_block(tmp_path):
    (tmp_path / "requests.py").write_text("")
    (tmp_path / "site.py").write_text("")
    (tmp_path / "blocks.py").write_text(
        "import requests\ndef app(e, s):\n    s('200 OK', [])\n    return [b'x']\n"
    )
    (tmp_path / "patched.py").write_text(
        "from syncless.patches import patch_all\npatch_all()\n" + (tmp_path / "blocks.py").read_text()
    )
    for name, told in (("blocks", 1), ("patched", 0)):
        process = subprocess.Popen(
            [sys.executable, "-m", "syncless", f"{name}:app", "--bind", "127.0.0.1:0", "--no-patch"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()
        process.terminate()
        _, errors = syncless.run_in_thread(process.communicate)
        assert errors.count("has imported requests") == told, errors


def test_locals_of_one_request_are_not_those_of_the_next_without_slots():
    done = run_unchecked("""
from syncless.patches import patch_all
patch_all()
import http.client, threading, syncless
from syncless.wsgi import Server
mine = threading.local()
def app(environ, start_response):
    seen = getattr(mine, "user", "nobody")
    mine.user = environ["PATH_INFO"]
    start_response("200 OK", [])
    return [seen.encode()]
with Server(app, port=0, request_slots="fresh") as server:
    connection = http.client.HTTPConnection(*server.address)
    seen = set()
    for number in range(5):
        connection.request("GET", f"/{number}")
        seen.add(connection.getresponse().read())
    connection.close()
print(seen)
""")
    assert done.stdout == "{b'nobody'}\n", done.stdout + done.stderr


def test_loops_that_never_wait_let_others_run():
    """Programs that ask again and again without waiting: threads would take turns."""
    done = run_unchecked("""
from syncless.patches import patch_all
patch_all()
import queue, select, socket, threading
left, right = socket.socketpair()
left.setblocking(False)
lock = threading.Lock()
lock.acquire()
def until(ask):
    came = []
    threading.Timer(0.05, came.append, [1]).start()
    while not came:
        ask()
def receive():
    try:
        left.recv(1)
    except BlockingIOError:
        pass
def get():
    try:
        queue.Queue().get_nowait()
    except queue.Empty:
        pass
until(lambda: select.select([], [left], []))
until(lambda: select.select([left], [], [], 0))
with select.epoll() as watched:
    watched.register(left, select.EPOLLOUT)
    until(watched.poll)
polled = select.poll()
polled.register(left, select.POLLOUT)
until(polled.poll)
until(receive)
until(lambda: lock.acquire(blocking=False))
until(get)
print("took turns")
""")
    assert done.stdout == "took turns\n", done.stderr


ALWAYS_READY = """
os.read(zero, 10)
os.write(null, b'x')
os.readv(zero, [bytearray(10)])
os.writev(null, [b'x'])
os.pread(regular.fileno(), 10, 0)
os.pwrite(own.fileno(), b'x', 0)
endless.read(10)
endless.readinto(bytearray(10))
(regular.seek(0), regular.read(10))
(own.seek(0), own.write(b'x'), own.flush())
open(sys.executable, 'rb').close()
os.path.exists('/no/such/file')
os.access(sys.executable, os.R_OK)
os.fstat(regular.fileno())
os.listdir('.')
os.scandir('.').close()
child.poll()
os.waitpid(child.pid, os.WNOHANG)
os.wait4(child.pid, os.WNOHANG)
os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
left.recv(1, socket.MSG_PEEK)
left.send(b'')
time.sleep(0)
(things.put(1), things.get())
(things.put(1), things.get_nowait())
fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.fcntl(own.fileno(), fcntl.F_SETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))
os.lockf(own.fileno(), os.F_TLOCK, 0)
signal.sigtimedwait([signal.SIGUSR1], 0)
database.execute('select 1').fetchall()
semaphore.acquire(False)
"""


@pytest.mark.parametrize("mode", ["adaptive", "direct"])
def test_calls_that_are_always_ready_take_turns(tmp_path, mode):
    """A loop around each ends only if another thread has had its turn. A file system on trial gives turns by
    its threads, so there are none in one case."""
    (tmp_path / "program.py").write_text(f"""
from syncless.patches import patch_all
patch_all()
import fcntl, multiprocessing, os, queue, signal, socket, sqlite3, struct, subprocess, sys, threading, time
from syncless.io import files
files.set_mode({mode!r})
signal.alarm(20)
zero, null = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
endless, regular, own = open("/dev/zero", "rb", buffering=0), open(__file__, "rb"), open("own", "w+b")
left, right = socket.socketpair()
right.sendall(b"x")
things, database, semaphore = queue.SimpleQueue(), sqlite3.connect(":memory:"), multiprocessing.Semaphore(0)
child = subprocess.Popen(["sleep", "60"], stdout=null, stderr=null)
for ask in {ALWAYS_READY.split(chr(10))[1:-1]}:
    print(ask, flush=True)
    if "database" in ask and {mode == "direct"}:    # the statement, too, is executed at once
        continue
    ask, came = compile(ask, "ask", "eval"), []
    threading.Thread(target=lambda: (time.sleep(0.001), came.append(1))).start()
    while not came:
        eval(ask)
child.kill()
child.wait()
print("took turns")
""")
    command = [sys.executable, "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == ALWAYS_READY[1:] + "took turns\n", done.stderr


def test_flags_of_a_call_are_heeded():
    done = run_unchecked("""
from syncless.patches import patch_all
patch_all()
import socket
left, right = socket.socketpair()
now = socket.MSG_DONTWAIT
for call in (lambda: left.recv(1, now), lambda: left.recvfrom(1, now),
             lambda: left.recvmsg(1, 0, now), lambda: left.recv_into(bytearray(1), 1, now)):
    try:
        call()
    except BlockingIOError:
        pass
    else:
        raise AssertionError
try:
    while True:
        left.sendmsg([bytes(100_000)], [], socket.MSG_DONTWAIT)
except BlockingIOError:
    print("did not wait")
""")
    assert done.stdout == "did not wait\n", done.stderr


def test_destructors_at_the_end_of_the_interpreter():
    """Modules are torn down when nothing can run any more: calls that take locks go on, calls that would wait
    for others for ever raise, and the process ends."""
    done = run_unchecked("""
from syncless.patches import patch_all
patch_all()
import threading, time
lock, event = threading.Lock(), threading.Event()
class Late:
    def __del__(self, lock=lock, wait=event.wait):
        for _ in range(1000):
            with lock:
                pass
        try:
            wait()
        except RuntimeError as error:
            print("the interpreter is ending" in str(error))
for _ in range(5):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(0.01)
import builtins
builtins.late = Late()
""")
    assert done.stdout == "True\n" and done.returncode == 0 and not done.stderr, done.stderr


WAITS = {
    "sleep": "time.sleep(0.001)",
    "recv": "(left.send(b'x'), right.recv(1))",
    "timeout": "(right.settimeout(0.01), right.recv(1))",
    "accept": "(socket.create_connection((b'127.0.0.1', port)).close(), listener.accept()[0].close())",
    "pipe": "(fill(), os.read(pipe[0], 1))",
    "select": "select.select([left], [], [], 0.01)",
    "poll": "poll.poll(1)",
    "epoll": "epoll.poll(0.01)",
    "file": "(file.write(b'x'), file.flush(), os.fsync(file.fileno()), os.stat('.').st_mode)",
    "process": "subprocess.run(['/bin/true']).returncode",
    "system": "os.system('true')",
    "queue": "things.get(timeout=0.01)",
    "simple queue": "simple.get(timeout=0.01)",
    "event": "event.wait(0.01)",
    "lock": "taken.acquire(timeout=0.01)",
    "condition": "condition.acquire() and condition.wait(0.01)",
    "name": "socket.getaddrinfo(b'localhost', 80)[0][4][1]",
    "database": "database.execute('select 7').fetchall()",
    "semaphore": "semaphore.acquire(timeout=0.01)",
    "signal": "signal.sigtimedwait([signal.SIGUSR1], 0.01)",
    "hash": "len(hashlib.pbkdf2_hmac('sha256', b'a', b'b', 100000))",
}


@pytest.mark.parametrize("when", ["__del__", "finalize", "atexit"])
def test_call_that_waits_while_the_interpreter_ends_does_as_unpatched(tmp_path, when):
    program = f"""
import atexit, hashlib, multiprocessing, os, queue, select, signal, socket, sqlite3, subprocess, sys
import threading, time, weakref
left, right = socket.socketpair()
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
pipe = os.pipe()
fill = lambda: os.write(pipe[1], b"x")
poll, epoll = select.poll(), select.epoll()
poll.register(left, select.POLLIN)
epoll.register(left, select.EPOLLIN)
file = open("file", "wb")
things, simple = queue.Queue(), queue.SimpleQueue()
event, taken, condition = threading.Event(), threading.Lock(), threading.Condition()
taken.acquire()
database = sqlite3.connect(":memory:", check_same_thread=False)
semaphore = multiprocessing.Semaphore(0)
waits = {WAITS!r}
functions = {{name: eval("lambda: " + call) for name, call in waits.items()}}
def late(functions=functions, write=os.write):
    for name, function in functions.items():
        try:
            told = repr(function())
        except Exception as error:
            told = type(error).__name__
        write(1, (name + ": " + told + "\\n").encode())
class Late:
    def __del__(self, late=late):
        late()
if {when!r} == "atexit":
    atexit.register(late)
elif {when!r} == "finalize":
    kept = set()
    weakref.finalize(kept, late)
else:
    sys.modules["kept"] = Late()            # goes before the globals of modules
"""
    told = []
    for first in "", "from syncless.patches import patch_all\npatch_all()\n":
        (tmp_path / "program.py").write_text(first + program)
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        told.append((done.returncode, done.stdout.splitlines(), done.stderr))
    (status, lines, errors), patched = told
    assert [line.partition(":")[0] for line in lines] == list(WAITS)
    refused = ": PythonFinalizationError"  # by newer interpreters, which wait for no lock then
    wanted = [ours if line.endswith(refused) else line for line, ours in zip(lines, patched[1], strict=True)]
    assert patched == (status, wanted, errors)


def test_all_that_is_put_in_a_place_can_be_shown():
    """A debugger or a pytest that shows the variables of a frame must not fail by what it meets."""
    run_python("""
import gc, syncless.patches
before = {id(each) for each in gc.get_objects()}
syncless.patches.patch_all()
new = [each for each in gc.get_objects() if id(each) not in before]
assert len([repr(each) for each in new if type(each).__module__.startswith("syncless")]) > 50
""")


def test_subinterpreters_are_left_alone():
    """They share the built-in types that are patched in place; a thread of ours in one of them would end the
    process with it."""
    if sys.version_info < (3, 12):
        name = "_xxsubinterpreters"
    else:
        name = "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    done = run_unchecked(
        f"""
from syncless._core.calls import threads
threads.IDLE_SECONDS = 0.05
from syncless.patches import patch_all
patch_all()
import {name} as interpreters
from syncless.io import files
files.set_mode("pool")
import time
time.sleep(0.3)             # none of the threads is left that were started by this interpreter
code = "import json, _thread; open(json.__file__).read(); _thread.allocate_lock().acquire(timeout=0.01)"
for _ in range(3):
    one = interpreters.create()
    interpreters.run_string(one, code)
    interpreters.destroy(one)
print(len(open({__file__!r}).read()) > 100)
"""
    )
    assert done.stdout == "True\n" and done.returncode == 0, done.stderr
