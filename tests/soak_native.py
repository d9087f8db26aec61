"""Invariant: workers with native handlers lose no request when they are reloaded, and a killed one only those
that were in it.

Clients alternate between native handlers, one that answers in steps over some time, Python, which forks now
and then, and a handler that passes on to Python, on kept connections and pipelined, with bodies by length
and in chunks, so that connections go to and fro between threads and the loop while requests run. Part of
tests/soak.py, which says how it is started.
"""

from __future__ import annotations

import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import syncless
from syncless.io import socket
from tests.native.conftest import HERE, compiled
from tests.proxied import start_server
from tests.waiting import eventually

WORKERS, CLIENTS = 2, 12
HANDLERS = ("process", "echo", "pass", "steps")
KINDS = {
    "/": "by Python",
    "/fork": "by Python that forks",
    "/pass": "passed on",
    "/steps?3&size=20&wait=20": "in steps",
    "/steps?3&size=20&wait=90": "in steps",
    "/steps?3&size=150000&wait=3": "in large steps",
    "/steps?2&size=150000": "in large steps",
}
"""path -> whose request it is; native for all others"""

ESTABLISHED, CLOSE_WAIT = "01", "08"
"""as /proc/net/tcp writes them"""


class Client:
    """Asks until it is told to end; knows what each answer must be."""

    def __init__(self, seed: int, port: int):
        self.choose = random.Random(seed)
        self.port = port
        self.ending = False
        self.counts: Counter[str] = Counter()
        self.lost: list[str] = []

    def run(self) -> None:
        while not self.ending and len(self.lost) < 100:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                    self.use(connection)
            except (OSError, AssertionError) as error:
                self.lost.append(repr(error))

    def use(self, connection: Any) -> None:
        """Some rounds of requests. The server may close between two of them, but not before the first."""
        buffer = b""
        for number in range(self.choose.randint(1, 30)):
            wanted = [self.request() for _ in range(self.choose.choice((1, 1, 1, 6)))]
            answered = 0
            try:
                connection.sendall(b"".join(request for request, _, _ in wanted))
                for _, kind, body in wanted:
                    head, answer, buffer = self.answer(connection, buffer)
                    assert head.startswith(b"HTTP/1.1 200 ") and answer == body, (kind, head, answer[:100])
                    self.counts[kind] += 1
                    answered += 1
                    if b"connection: close" in head.lower():
                        return
            except ConnectionError:
                if number and not answered and not buffer:
                    self.counts["asked again"] += 1
                    return
                raise
            if self.ending:
                return
            if self.choose.random() < 0.2:
                syncless.sleep(self.choose.random() / 20)

    def request(self) -> tuple[bytes, str, bytes]:
        """The bytes of a request, whose it is, and the body of its answer."""
        path = self.choose.choice(("/process", "/echo", *KINDS))
        kind = KINDS.get(path, "native")
        head = b"POST %s HTTP/1.1\r\nHost: a\r\n" % path.encode()
        if path == "/process":
            return head + b"Content-Length: 0\r\n\r\n", kind, b"native"
        if steps := re.match(r"/steps\?(\d)&size=(\d+)", path):
            pieces = (b"%d" % number * int(steps[2]) for number in range(int(steps[1]), 0, -1))
            return head + b"Content-Length: 0\r\n\r\n", kind, b"".join(pieces)
        body = os.urandom(self.choose.choice((0, 10, 3000)))
        if self.choose.random() < 0.5:
            return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body), kind, body
        cut = self.choose.randint(0, len(body))
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:cut], body[cut:]) if piece]
        return head + b"Transfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % b"".join(chunks), kind, body

    @staticmethod
    def answer(connection: Any, buffer: bytes) -> tuple[bytes, bytes, bytes]:
        def more() -> bytes:
            block = connection.recv(65536)
            if not block:
                raise ConnectionError("the server closed the connection before it had answered")
            return block

        while b"\r\n\r\n" not in buffer:
            buffer += more()
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        body = b""
        while True:
            while not length and b"\r\n" not in buffer:
                buffer += more()
            if length:
                size, end = int(length[1]), 0
            else:
                line, _, buffer = buffer.partition(b"\r\n")
                size, end = int(line, 16), 2
            while len(buffer) < size + end:
                buffer += more()
            body, buffer = body + buffer[:size], buffer[size + end :]
            if length or not size:
                return head, body, buffer


def children(server: subprocess.Popen[str]) -> set[int]:
    return set(map(int, pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()))


def held(port: int) -> int:
    """How many connections the server has open."""
    table = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] in (ESTABLISHED, CLOSE_WAIT) for row in table)


@contextmanager
def asking(clients: list[Client]) -> Iterator[None]:
    tasklets = [syncless.spawn(client.run) for client in clients]
    try:
        yield
    finally:
        for client in clients:
            client.ending = True
        for tasklet in tasklets:
            tasklet.join()


def soak_native(seconds: float, say: Any = print) -> Counter[str]:
    """Reloads without end, and at last kills a worker."""
    with tempfile.TemporaryDirectory() as name, open(f"{name}/errors", "w+") as errors:
        folder = pathlib.Path(name)
        library = compiled(HERE / "handlers.c", folder / "handlers.so")
        native = [f"--native=/{handler}={library}:{handler}" for handler in HANDLERS]
        options = ["--bind", "127.0.0.1:0", "--workers", str(WORKERS), "--native-threads", "2", *native]
        server, port = start_server(folder, errors, *options)
        try:
            assert eventually(lambda: len(children(server)) == WORKERS, 60)
            clients = [Client(seed, port) for seed in range(CLIENTS)]
            ends, reloads = time.monotonic() + seconds, 0
            with asking(clients):
                while time.monotonic() < ends:
                    before = children(server)
                    server.send_signal(signal.SIGHUP)
                    assert eventually(lambda before=before: not children(server) & before, 60)
                    reloads += 1
                lost = [each for client in clients for each in client.lost]
                assert not lost, f"native handlers: {len(lost)} requests were lost: {lost[:3]}"
                assert eventually(lambda: len(children(server)) == WORKERS, 60)
                victim = min(children(server))
                os.kill(victim, signal.SIGKILL)
                assert eventually(
                    lambda: victim not in children(server) and len(children(server)) == WORKERS, 60
                )
            lost = [each for client in clients for each in client.lost]
            assert len(lost) <= CLIENTS, f"a killed worker has lost {len(lost)} requests: {lost[:3]}"
            assert eventually(lambda: not held(port)), f"{held(port)} connections are open without a client"
        finally:
            server.terminate()
            status = syncless.run_in_thread(server.wait)
            server.stdout.close()
        assert status == 0, f"exit status {status}"
        assert "Traceback" not in (said := (folder / "errors").read_text()), said
    counts = sum((client.counts for client in clients), Counter())
    assert all(counts[kind] for kind in ("native", *KINDS.values())), counts
    told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
    say(f"native handlers: {told}, {reloads} reloads, {len(lost)} lost by the killed worker")
    return counts


def missing() -> bool:
    """Whether the handlers cannot be built."""
    return shutil.which("cc") is None
