"""Invariant: after minutes of good and bad clients, kills and reloads nothing is lost and nothing is left.

``python -m tests.soak --seconds 180`` starts a server (HTTP and HTTPS on one port, WebSockets, access log)
and clients of every kind. Meanwhile it reloads certificates, renames log files and kills requests. At the
end:

- every request of a well-behaved client was answered correctly, by the answer to no other request;
- the server owns no connection, buffer, deadline or running request but the one that asks;
- its memory is within some megabytes of that after the first quarter;
- each answered request has one line in the access logs;
- it stops on SIGTERM with exit status 0 and no complaint.

For another quarter of the time, behind nginx and then HAProxy if they are installed, clients POST to two
workers that are reloaded, recycled and killed. Reloading and recycling lose nothing; a killed worker loses
the requests that were in it. The same is shown for workers with native handlers, without a proxy, where a C
compiler is (soak_native.py).

With ``--takeovers 10000`` two threads of the server stand by, and requests hold their threads, until another
one has taken over that many times; then the same with workers behind the proxies.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import itertools
import json
import os
import pathlib
import random
import re
import signal
import socket as blocking
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter

import syncless
from syncless.io import socket
from syncless.server.program import blocking as stalls
from syncless.server.program import preparing
from syncless.wsgi import Server
from syncless.wsgi import serve as serve_program
from tests import soak_native
from tests.programs import SLOW
from tests.proxied import COMMANDS, Proxied, missing

GROWTH = 8 << 20 if "ASAN_OPTIONS" not in os.environ else 1 << 40
"""Bytes by which private memory may grow after the first quarter: allocators keep some pages, and
AddressSanitizer keeps all."""
STANDBY = 2
"""Threads that stand by, where takeovers are wanted."""
HELD_SECONDS = 0.005
HOLDS = "a thread was held for"


def application(environ, start_response):
    path, body = environ["PATH_INFO"], environ["wsgi.input"]
    named = [("X-Count", environ.get("HTTP_X_COUNT", ""))]
    websocket = environ.get("wsgi.websocket")
    if websocket is not None:
        for message in websocket:
            websocket.send(message)
        return []
    if path == "/census":
        # before the response's head is begun, which has a buffer
        takeovers = SERVERS[0].lanes[0].figures().get("takeovers", 0)
        census = json.dumps({"takeovers": takeovers, **SERVERS[0].census()}).encode()
        start_response("200 OK", [])
        return [census]
    if path == "/echo":
        data = body.read()
        start_response("200 OK", named)
        return [data]
    if path == "/sleep":
        syncless.sleep(random.random() / 200)
    if path == "/hold":
        hold(random.random() / 40)
    if path == "/stream":
        start_response("200 OK", named)
        return (b"x" * 1000 for _ in range(200))
    if path == "/big":
        start_response("200 OK", named)
        return [b"x" * 2_000_000]
    if path == "/kill":
        syncless.current().kill()
        syncless.sleep(1)
    start_response("200 OK", named)
    return [b"hello"]


async def events(scope, receive, send):
    """An ASGI application that is mounted beside the other one."""
    body, more = b"", scope["type"] == "http"
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body")
    if scope["type"] == "http":
        await asyncio.sleep(random.random() / 200)
        named = [(name, value) for name, value in scope["headers"] if name == b"x-count"]
        await send({"type": "http.response.start", "status": 200, "headers": named})
        await send({"type": "http.response.body", "body": body})


def hold(seconds: float) -> None:
    """Waits in C without the interpreter's lock, or computes in Python."""
    if random.random() < 0.5:
        ctypes.CDLL(None).usleep(int(seconds * 1e6))
    else:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            pass


SERVERS: list[Server] = []


class Watched(Server):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        SERVERS.append(self)


def serve(folder: str, standby: int) -> None:
    preparing.Server = Watched
    stalls.STALL_MILLISECONDS = 10_000  # an import takes long under a sanitizer; a hang is longer
    serve_program(
        {"/asgi": events, "/": application} if standby else application,
        port=0,
        certfile=f"{folder}/cert.pem",
        keyfile=f"{folder}/key.pem",
        plain_http=True,
        access_log=f"{folder}/access.log",
        access_log_format="%{X-Count}i %s",
        defer_accept=False,
        connections=400,
        requests=50,
        queued=400,
        head_seconds=2,
        write_seconds=2,
        linger_seconds=0.5,
        idle_seconds=5,
        held_seconds=HELD_SECONDS,
        standby_threads=standby,
        patch=standby > 0,
    )


# -- clients ---------------------------------------------------------------------------------------


class Soak:
    def __init__(self, seconds: float, seed: int, takeovers: int = 0):
        self.seconds = seconds
        self.takeovers = takeovers
        self.mounted = ("/asgi/echo",) if takeovers else ()
        self.choose = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.answered: list[int] = []
        """Numbers of requests, of which each has its answer."""
        self.folder = tempfile.mkdtemp()
        self.certify()
        command = [sys.executable, "-m", "tests.soak", "--serve", self.folder]
        if takeovers:
            command += ["--takeovers", str(takeovers)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline())[1])
        self.ends = time.monotonic() + seconds

    def certify(self) -> None:
        import trustme  # only here: the tests that need it say so

        authority = trustme.CA()
        made = authority.issue_cert("localhost")
        made.private_key_pem.write_to_path(f"{self.folder}/key.pem")
        pathlib.Path(f"{self.folder}/cert.pem").write_bytes(
            b"".join(blob.bytes() for blob in made.cert_chain_pems)
        )

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def going(self) -> bool:
        return time.monotonic() < self.ends or self.counts["takeovers"] < self.takeovers

    def ask(self, client, method: str, *paths: str, body: bytes = b"") -> list[int]:
        """Sends requests in a row, and returns their numbers."""
        numbers = [next(self.numbers) for _ in paths]
        size = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        heads = (
            f"{method} {path} HTTP/1.1\r\nHost: a\r\nX-Count: {number}\r\n{size}\r\n".encode() + body
            for number, path in zip(numbers, paths, strict=True)
        )
        client.sendall(b"".join(heads))
        return numbers

    def answer(self, client, buffer: bytes, number: int) -> tuple[bytes, bytes]:
        """The body of the answer to that request, and what has come behind it."""
        status, found, answer, buffer = self.read_answer(client, buffer)
        assert (status, found) == (200, str(number).encode()), f"{status} to {found!r}, not to {number}"
        self.answered.append(number)
        self.counts["good"] += 1
        return answer, buffer

    @staticmethod
    def read_answer(client, buffer: bytes) -> tuple[int, bytes, bytes, bytes]:
        """Its status, the number of its request, its body, and what has come behind it."""

        def more():
            block = client.recv(65536)
            if not block:
                raise ConnectionError("the server closed the connection before it had answered")
            return block

        while b"\r\n\r\n" not in buffer:
            buffer += more()
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        status, number = int(head[9:12]), (re.findall(rb"(?i)X-Count: (\d+)", head) or [b""])[0]
        if b"Transfer-Encoding: chunked" in head:
            while not buffer.endswith(b"0\r\n\r\n"):
                buffer += more()
            return status, number, b"", b""
        size = int(re.search(rb"Content-Length: (\d+)", head)[1])
        parts, got = [buffer], len(buffer)
        while got < size:
            parts.append(more())
            got += len(parts[-1])
        whole = b"".join(parts)
        return status, number, whole[:size], whole[size:]

    def good(self, client) -> None:
        """Some requests on a connection; each must be answered, and rightly. The server may close between
        them."""
        buffer = b""
        for number in range(self.choose.randint(1, 20)):
            paths = ("/", "/sleep", "/echo", "/stream", "/big" if number % 7 == 0 else "/", *self.mounted)
            path = self.choose.choice(paths)
            body = os.urandom(self.choose.choice((0, 10, 5000, 200_000))) if "echo" in path else b""
            try:
                (asked,) = self.ask(client, "POST", path, body=body)
                answer, buffer = self.answer(client, buffer, asked)
            except (ConnectionError, OSError) as error:
                if number and isinstance(
                    error, ConnectionError
                ):  # closed as the oldest idle one: a client asks again then
                    self.counts["idle connections closed"] += 1
                    return
                raise
            assert "echo" not in path or answer == body, path
            if self.choose.random() < 0.2:
                syncless.sleep(self.choose.random() / 10)

    def good_client(self) -> None:
        with self.connect() as client:
            self.good(client)

    def pipelining_client(self) -> None:
        number = self.choose.randint(2, 40)
        with self.connect() as client:
            buffer = b""
            paths = [self.choose.choice(("/sleep", *self.mounted)) for _ in range(number)]
            for asked in self.ask(client, "GET", *paths):
                _, buffer = self.answer(client, buffer, asked)

    def tls_client(self) -> None:
        """A blocking client in an OS thread."""

        def visit():
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with (
                blocking.create_connection(("127.0.0.1", self.port), timeout=30) as sock,
                context.wrap_socket(sock) as client,
            ):
                for _ in range(5):
                    (asked,) = self.ask(client, "GET", "/sleep")
                    self.answer(client, b"", asked)

        syncless.run_in_thread(visit)

    def holding_client(self) -> None:
        """Its requests hold their thread; it closes its connection at once, or goes on elsewhere."""
        with self.connect() as client:
            buffer = b""
            for asked in self.ask(client, "GET", "/hold", "/sleep"):
                _, buffer = self.answer(client, buffer, asked)

    def websocket_client(self) -> None:
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        with self.connect() as client:
            client.sendall(
                b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + key + b"\r\n"
            )
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(1000)
            for _ in range(5):
                client.sendall(b"\x81\x85\0\0\0\0hello")
                assert client.recv(7) == b"\x81\x05hello"
                self.counts["messages"] += 1
            if self.choose.random() < 0.5:
                client.sendall(b"\x88\x82\0\0\0\0\x03\xe8")
                client.recv(100)

    def rude_client(self) -> None:
        """Vanishes at some point: in its head, its body, its answer or its handshake; or drips; or never
        reads."""
        kind = self.choose.randrange(8)
        self.counts["rude"] += 1
        with self.connect() as client:
            try:
                if kind == 0:
                    client.sendall(b"GET / HTTP/1.1\r\nHo")
                elif kind == 1:
                    client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf")
                elif kind == 2:
                    client.sendall(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n" * 3)
                    syncless.sleep(self.choose.random() * 3)
                elif kind == 3:
                    client.sendall(b"\x16\x03\x01\x02\x00\x01" + os.urandom(self.choose.randrange(600)))
                elif kind == 4:
                    for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100:
                        client.sendall(bytes([byte]))
                        syncless.sleep(0.03)
                elif kind == 5:
                    client.sendall(os.urandom(300))
                elif kind == 6:
                    client.sendall(b"GET /kill HTTP/1.1\r\nHost: a\r\n\r\n")
                    client.recv(1000)
                else:
                    client.sendall(b"GET /sleep HTTP/1.1\r\nHost: a\r\n\r\n")
                if self.choose.random() < 0.5:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass

    def one_after_the_other(self, kinds) -> None:
        while self.going():
            kind = self.choose.choice(kinds)
            try:
                kind()
            except Exception as error:
                raise AssertionError(f"{kind.__name__}: {error!r}") from error

    def disturb(self) -> None:
        """Reloads and renames, every second."""
        number = 0
        while time.monotonic() < self.ends - 1 or self.counts["takeovers"] < self.takeovers:
            syncless.sleep(1)
            self.counts["takeovers"] = self.census()["takeovers"]
            number += 1
            self.certify()
            self.process.send_signal(signal.SIGHUP)
            os.rename(f"{self.folder}/access.log", f"{self.folder}/access.log.{number}")
            self.process.send_signal(signal.SIGUSR1)
            while not os.path.exists(f"{self.folder}/access.log"):
                syncless.sleep(0.01)
            self.counts["reloads"] += 1

    # -- the end -----------------------------------------------------------------------------------

    def memory(self) -> int:
        total = 0
        for line in pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total += int(line.split()[1]) * 1024
        return total

    def census(self) -> dict[str, int]:
        with self.connect() as client:
            client.sendall(b"GET /census HTTP/1.1\r\nHost: a\r\n\r\n")
            return json.loads(self.read_answer(client, b"")[2])

    def run(self, say=print) -> Counter[str]:
        good = (self.good_client, self.good_client, self.pipelining_client, self.websocket_client)
        tasklets = [syncless.spawn(self.one_after_the_other, good) for _ in range(40)]
        tasklets += [syncless.spawn(self.one_after_the_other, (self.tls_client,)) for _ in range(4)]
        tasklets += [syncless.spawn(self.one_after_the_other, (self.rude_client,)) for _ in range(30)]
        if self.takeovers:
            tasklets += [syncless.spawn(self.one_after_the_other, (self.holding_client,)) for _ in range(3)]
        tasklets.append(syncless.spawn(self.disturb))
        try:
            syncless.sleep(self.seconds / 4)
            before = self.memory()
            while running := [tasklet for tasklet in tasklets if not tasklet.done()]:
                syncless.wait(running, timeout=10, count=len(running))
                for tasklet in tasklets:
                    if tasklet.done():
                        tasklet.result()
                say(", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items())))
            for _ in range(400):
                census = self.census()
                if census["connections"] == 1:
                    break
                syncless.sleep(0.05)
            takeovers = census.pop("takeovers")
            owned = {**dict.fromkeys(census, 0), "connections": 1, "active": 1}
            assert census == owned, f"the server still owns {census}"
            grown = self.memory() - before
            assert grown < GROWTH, f"memory has grown by {grown:,} bytes"
        finally:
            for tasklet in tasklets:
                tasklet.kill()
            self.process.terminate()
            out, err = syncless.run_in_thread(self.process.communicate)
        assert self.process.returncode == 0, f"exit status {self.process.returncode}\n{out}\n{err}"
        lines = SLOW.sub("", err).splitlines()
        complaints = [line for line in lines if HOLDS not in line and "[INFO]" not in line]
        assert not complaints, "\n".join(complaints)
        logged = Counter[str]()
        for path in pathlib.Path(self.folder).glob("access.log*"):
            logged.update(path.read_text().split("\n"))
        wrong = [number for number in self.answered if logged[f"{number} 200"] != 1]
        assert not wrong, f"{len(wrong)} of {len(self.answered)} answered requests are not logged once"
        answers = f"{len(self.answered):,} answers, {takeovers:,} takeovers"
        say(f"memory has changed by {grown:,} bytes; {answers}, {self.counts['reloads'] + 1} log files")
        return self.counts


def soak_behind(kind: str, seconds: float, say=print, standby: int = 0) -> Counter[str]:
    """Reloads without end, recycles each worker after some thousand requests, and at last kills one."""
    with tempfile.TemporaryDirectory() as folder:
        limits = ("-l", "worker_requests=3000", "-l", "worker_requests_jitter=2000")
        paths = ["/"]
        if standby:
            limits += ("--standby", str(standby), "-l", f"held_seconds={HELD_SECONDS}")
            paths = ["/", "/", "/", "/hold"]
        with Proxied(kind, pathlib.Path(folder) / "proxied", *limits, paths=paths) as running:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                running.reload()
                syncless.sleep(running.choose.random())
            lost = f"{len(running.lost)} of {running.counts['answered']} requests"
            assert not running.lost, f"{kind}: {lost} were lost: {running.lost[:3]}"
            victim = min(running.workers())
            os.kill(victim, signal.SIGKILL)
            running.until(
                lambda: victim not in running.workers() and len(running.workers()) == running.processes
            )
            syncless.sleep(1)
            assert len(running.lost) <= running.wanted, (
                f"{kind}: a killed worker has lost {len(running.lost)} requests"
            )
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(running.counts.items()))
        lost = f"{len(running.lost)} lost by the killed one"
        say(f"behind {kind}: {counts}, {len(running.pids)} workers, {lost}")
        return running.counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180, help="how long (default 180)")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices (default 1)")
    parser.add_argument(
        "--takeovers", type=int, default=0, help="of threads, before it ends (default 0: none)"
    )
    parser.add_argument("--serve", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    standby = STANDBY if options.takeovers else 0
    if options.serve:
        serve(options.serve, standby)
        return 0
    try:
        Soak(options.seconds, options.seed, options.takeovers).run(lambda line: print(line, flush=True))
        if standby:
            pass  # native handlers hold no loop
        elif soak_native.missing():
            print("cc is not installed: nothing is said about native handlers")
        else:
            soak_native.soak_native(options.seconds / 4, lambda line: print(line, flush=True))
        for kind in COMMANDS:
            if missing(kind):
                print(f"{kind} is not installed: nothing is said about it")
            else:
                soak_behind(kind, options.seconds / 4, lambda line: print(line, flush=True), standby)
    except AssertionError as error:
        print(f"the invariant does not hold: {error}", file=sys.stderr)
        return 1
    print("the invariant holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
