"""The cost of the standard library's calls when nothing has to wait, and between two threads: unpatched,
under our patch, under gevent's.

``python -m benchmark.patched LIBRARY time DIVISOR`` prints one JSON object: nanoseconds of CPU per operation.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

OPERATIONS: dict[str, str] = {
    "recv": "recv, 64 bytes there",
    "recv 64k": "recv, 64 kB there (with the send)",
    "recv_into": "recv_into, 64 bytes there",
    "send": "send, 64 bytes",
    "sendall": "sendall, 64 bytes",
    "recvfrom": "sendto + recvfrom, a datagram",
    "recvmsg": "sendmsg + recvmsg, 64 bytes",
    "makefile": "readline of a socket's file",
    "accept": "connect + accept + close, TCP on loopback",
    "tls": "TLS write + read, 64 bytes",
    "pipe": "os.write + os.read, a pipe",
    "select": "select, one of two ready",
    "selectors": "selectors, one of two ready",
    "lock": "Lock, acquire + release",
    "rlock": "RLock, acquire + release",
    "event": "Event, set + wait + clear",
    "SimpleQueue": "SimpleQueue, put + get",
    "Queue": "Queue, put + get",
    "threads": "Thread, start + join",
    "two events": "two threads, there and back: Event",
    "two semaphores": "two threads, there and back: Semaphore",
    "two conditions": "two threads, there and back: Condition",
    "two SimpleQueues": "two threads, there and back: SimpleQueue",
    "two Queues": "two threads, there and back: Queue",
    "executor": "ThreadPoolExecutor, submit + result",
}
"""operation -> what it is"""


def measure(divisor: int) -> dict[str, float]:
    import queue
    import select
    import selectors
    import socket
    import ssl
    import threading
    from concurrent.futures import ThreadPoolExecutor

    left, right = socket.socketpair()
    small, large, room = b"x" * 64, b"x" * 65536, bytearray(64)
    for sock in (left, right):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def filled(function: Callable[[], object]) -> Callable[[int], int]:
        """Only the reading is measured: a hundred messages lie there."""

        def run(n: int) -> int:
            used = 0
            for _ in range(n // 100):
                for _ in range(100):
                    right.send(small)
                started = time.process_time_ns()
                for _ in range(100):
                    function()
                used += time.process_time_ns() - started
            return used

        return run

    def emptied(function: Callable[[], object]) -> Callable[[int], int]:
        def run(n: int) -> int:
            used = 0
            for _ in range(n // 100):
                started = time.process_time_ns()
                for _ in range(100):
                    function()
                used += time.process_time_ns() - started
                while len(left.recv(65536)) == 65536:
                    pass
            return used

        return run

    def whole(function: Callable[[], object]) -> Callable[[int], int]:
        def run(n: int) -> int:
            started = time.process_time_ns()
            for _ in range(n):
                function()
            return time.process_time_ns() - started

        return run

    def big() -> None:
        right.sendall(large)
        got = 0
        while got < 65536:
            got += len(left.recv(65536))

    one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    one.bind(("127.0.0.1", 0))
    here = one.getsockname()

    def datagram() -> None:
        two.sendto(small, here)
        one.recvfrom(100)

    def message() -> None:
        right.sendmsg([small])
        left.recvmsg(100)

    lines = left.makefile("rb")

    def line() -> None:
        right.send(b"a line\n")
        lines.readline()

    listener = socket.create_server(("127.0.0.1", 0))
    there = listener.getsockname()

    def visit() -> None:
        sock = socket.socket()
        sock.connect(there)
        listener.accept()[0].close()
        sock.close()

    a, b = tls_pair(socket, ssl, threading)

    def encrypted() -> None:
        a.send(small)
        b.recv(100)

    reading, writing = os.pipe()

    def pipe() -> None:
        os.write(writing, small)
        os.read(reading, 100)

    ready, _ = socket.socketpair()
    selector = selectors.DefaultSelector()
    selector.register(ready, selectors.EVENT_WRITE)
    selector.register(left, selectors.EVENT_READ)
    lock, rlock, event = threading.Lock(), threading.RLock(), threading.Event()
    simple, line_up = queue.SimpleQueue(), queue.Queue()

    def locked() -> None:
        with lock:
            pass

    def rlocked() -> None:
        with rlock:
            pass

    def set_and_wait() -> None:
        event.set()
        event.wait()
        event.clear()

    def handed(made) -> Callable[[], None]:
        def run() -> None:
            made.put(1)
            made.get()

        return run

    def in_turn(ask: Callable[[], object], answer: Callable[[], object]) -> Callable[[int], int]:
        """One asks, another thread answers."""

        def run(n: int) -> int:
            def answer_all() -> None:
                for _ in range(n):
                    answer()

            thread = threading.Thread(target=answer_all)
            thread.start()
            started = time.process_time_ns()
            for _ in range(n):
                ask()
            used = time.process_time_ns() - started
            thread.join()
            return used

        return run

    asked, answered = threading.Event(), threading.Event()

    def signal_and_wait() -> None:
        asked.set()
        answered.wait()
        answered.clear()

    def wait_and_signal() -> None:
        asked.wait()
        asked.clear()
        answered.set()

    question, reply = threading.Semaphore(0), threading.Semaphore(0)

    def release_and_acquire() -> None:
        question.release()
        reply.acquire()

    def acquire_and_release() -> None:
        question.acquire()
        reply.release()

    condition, turns = threading.Condition(), [0]

    def take_turn(mine: int) -> Callable[[], None]:
        def run() -> None:
            with condition:
                while turns[0] != mine:
                    condition.wait()
                turns[0] = 1 - mine
                condition.notify()

        return run

    def exchange(kind) -> Callable[[int], int]:
        there, back = kind(), kind()

        def ask() -> None:
            there.put(1)
            back.get()

        return in_turn(ask, lambda: back.put(there.get()))

    def start_and_join() -> None:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    executor = ThreadPoolExecutor(1)

    runs: dict[str, tuple[Callable[[int], int], int]] = {
        "recv": (filled(lambda: left.recv(64)), 50_000),
        "recv 64k": (whole(big), 10_000),
        "recv_into": (filled(lambda: left.recv_into(room)), 50_000),
        "send": (emptied(lambda: right.send(small)), 50_000),
        "sendall": (emptied(lambda: right.sendall(small)), 50_000),
        "recvfrom": (whole(datagram), 20_000),
        "recvmsg": (whole(message), 20_000),
        "makefile": (whole(line), 20_000),
        "accept": (whole(visit), 3000),
        "tls": (whole(encrypted), 10_000),
        "pipe": (whole(pipe), 50_000),
        "select": (whole(lambda: select.select([left], [ready], [])), 20_000),
        "selectors": (whole(lambda: selector.select()), 20_000),
        "lock": (whole(locked), 200_000),
        "rlock": (whole(rlocked), 200_000),
        "event": (whole(set_and_wait), 30_000),
        "SimpleQueue": (whole(handed(simple)), 100_000),
        "Queue": (whole(handed(line_up)), 30_000),
        "threads": (whole(start_and_join), 2000),
        "two events": (in_turn(signal_and_wait, wait_and_signal), 10_000),
        "two semaphores": (in_turn(release_and_acquire, acquire_and_release), 10_000),
        "two conditions": (in_turn(take_turn(0), take_turn(1)), 10_000),
        "two SimpleQueues": (exchange(queue.SimpleQueue), 10_000),
        "two Queues": (exchange(queue.Queue), 10_000),
        "executor": (whole(lambda: executor.submit(int).result()), 5000),
    }
    found = {}
    for name, (function, n) in runs.items():
        n = max(200, n // divisor)
        function(100)
        found[name] = min(function(n) / n for _ in range(5))
    return found


def tls_pair(socket, ssl, threading):
    """Two ends of a TLS connection."""
    import trustme

    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(server)
    authority.configure_trust(client)
    ours, theirs = socket.socketpair()
    ends = []
    thread = threading.Thread(target=lambda: ends.append(server.wrap_socket(theirs, server_side=True)))
    thread.start()
    mine = client.wrap_socket(ours, server_hostname="localhost")
    thread.join()
    return mine, ends[0]


if __name__ == "__main__":
    if sys.argv[1] == "syncless":
        from syncless.patches import patch_all

        patch_all()
    elif sys.argv[1] == "gevent":
        from gevent.monkey import patch_all

        patch_all()
    print(json.dumps(measure(int(sys.argv[3]))), flush=True)
    os._exit(0)
