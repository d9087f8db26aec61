"""Invariant: for any bytes, split in any way, each client gets the same well-formed answers, and other
clients notice nothing.

``python -m tests.fuzz --seconds 60 --seed 1`` runs a server and hostile clients in one process, for half of
the time with a WSGI application, then with one of ASGI. It stops at the first violation, and prints the
bytes that caused it and the seed that brings them back. `make fuzz` does so for ten minutes.
After every input:

- the answers are complete HTTP messages with statuses that the server may give, or the connection ends;
  there is never half a message;
- the same bytes give the same answers whole, byte by byte and split at random;
- nothing is reported as an error of the server, and a new client is served;
- at the end no connection, buffer, deadline or tasklet is left.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import io
import json
import os
import pathlib
import random
import re
import struct
import sys
import time
from typing import Any

import syncless
from syncless.apps.wsgi.application import EnvironRequest
from syncless.http.proxyheader import SIGNATURE, parse_proxy_header
from syncless.http.trust import Forwarding, Trust
from syncless.io import socket
from syncless.wsgi import Server
from tests.fuzzed_asgi import application as asgi_application
from tests.http.test_websocket import HANDSHAKE, frame
from tests.slowlog import SlowLog

CASES = [
    case["request"].encode("latin-1")
    for case in json.loads((pathlib.Path(__file__).parent / "http" / "cases.json").read_text())
]
STATUSES = {200, 204, 304, 400, 401, 403, 408, 413, 414, 417, 426, 431, 500, 501, 503, 505}
WORDS = [bytes([byte]) for byte in range(256)]
WORDS += [
    b"\r\n",
    b"\r\n\r\n",
    b"GET ",
    b"POST ",
    b"HEAD ",
    b" HTTP/1.1",
    b" HTTP/1.0",
    b"Host: a\r\n",
    b"Content-Length: ",
    b"0\r\n\r\n",
]
WORDS += [
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"TE: trailers\r\n",
    b"\xff" * 9,
]
WORDS.append(
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
WORDS += [
    b"x" * 300,
    b"99999999999999999999",
    b"-1",
    b"0x1",
    b"1_0",
    b"\x16\x03\x01",
    b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n",
    SIGNATURE,
]
PATHS = [
    b"/",
    b"/echo",
    b"/stream",
    b"/empty",
    b"/error",
    b"/late",
    b"/unread",
    b"/short",
    b"/long",
    b"/%00",
    b"*",
    b"/lines",
    b"/write",
]
# the ways that only an ASGI application has; the one of WSGI says hello
PATHS += [
    b"/two",
    b"/file",
    b"/region",
    b"/trailers",
    b"/hints",
    b"/ears",
    b"/impatient",
    b"/after",
    b"/gone",
]
WEBSOCKET_PATHS = [b"/", b"/", b"/close", b"/deny", b"/refuse", b"/two", b"/unanswered"]


class Violation(Exception):
    """The invariant does not hold."""


def application(environ, start_response):
    """Every way to answer, right and wrong."""
    path = environ["PATH_INFO"]
    body = environ["wsgi.input"]
    if path == "/echo":
        data = body.read()
        start_response("200 OK", [("Content-Length", str(len(data)))])
        return [data]
    if path == "/lines":
        data = list(body)
        start_response("200 OK", [])
        return data
    if path == "/stream":
        start_response("200 OK", [])
        return (part for part in (b"a", b"", b"b" * 3000, b"c"))
    if path == "/write":
        write = start_response("200 OK", [])
        write(b"written ")
        return [b"and returned"]
    if path == "/empty":
        start_response("204 No Content", [])
        return []
    if path == "/error":
        raise RuntimeError("on purpose")
    if path == "/late":
        start_response("200 OK", [])
        return late()
    if path == "/short":
        start_response("200 OK", [("Content-Length", "10")])
        return [b"short"]
    if path == "/long":
        start_response("200 OK", [("Content-Length", "2")])
        return [b"too long"]
    if path == "/unread" and body.read(1) == b"z":
        syncless.sleep(0)
    websocket = environ.get("wsgi.websocket")
    if websocket is not None and path == "/":
        for message in websocket:
            websocket.send(message)
        return []
    start_response("200 OK", [("X-Path", "yes")])
    return [b"hello"]


def late():
    yield b"begun"
    raise RuntimeError("on purpose, in mid-stream")


# -- input -----------------------------------------------------------------------------------------


def a_request(choose: random.Random) -> bytes:
    """Something like a request."""
    kind = choose.random()
    if kind < 0.3:
        return choose.choice(CASES)
    body = bytes(choose.choice(b"abz\r\n0;") for _ in range(choose.choice((0, 1, 3, 100, 5000))))
    lines = [
        choose.choice((b"GET", b"POST", b"HEAD", b"PUT"))
        + b" "
        + choose.choice(PATHS)
        + choose.choice((b"", b"?q"))
        + b" HTTP/1.1"
    ]
    lines.append(b"Host: a")
    if choose.random() < 0.2:
        lines.append(
            choose.choice(
                (
                    b"Connection: close",
                    b"Expect: 100-continue",
                    b"TE: trailers",
                    b"X: " + b"y" * choose.randint(0, 9000),
                )
            )
        )
    if kind < 0.6 and body:
        lines.append(b"Transfer-Encoding: chunked")
        chunks = b""
        at = 0
        while at < len(body):
            size = choose.randint(1, 1 + len(body) // 2)
            chunks += b"%x\r\n%b\r\n" % (len(body[at : at + size]), body[at : at + size])
            at += size
        body = chunks + b"0\r\n" + choose.choice((b"", b"T: x\r\n")) + b"\r\n"
    elif body:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def mutated(data: bytes, choose: random.Random) -> bytes:
    for _ in range(choose.choice((0, 0, 1, 1, 2, 5))):
        at = choose.randrange(len(data) + 1)
        to = min(len(data), at + choose.choice((1, 2, 10)))
        kind = choose.randrange(5)
        if kind == 0:
            data = data[:at] + choose.choice(WORDS) + data[at:]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:at] + choose.choice(WORDS) + data[to:]
        elif kind == 3:
            data = data[:at] + data[at:to] * choose.choice((2, 3, 50)) + data[to:]
        else:
            data = data[:at]
    return data


def some_frames(choose: random.Random) -> bytes:
    """A WebSocket's handshake and something like its frames."""
    frames = b"".join(
        frame(
            choose.choice((0, 1, 1, 2, 2, 8, 9, 10)),
            choose.choice((b"", b"text", b"\xc3", b"\xa9", b"\x03\xe8", bytes(126), bytes(70000))),
            fin=choose.random() < 0.7,
        )
        for _ in range(choose.choice((1, 2, 5)))
    )
    handshake = (HANDSHAKE + "\r\n").encode().replace(b"/ws", choose.choice(WEBSOCKET_PATHS))
    return handshake + mutated(frames, choose)


def some_input(choose: random.Random) -> bytes:
    if choose.random() < 0.1:
        return some_frames(choose)
    data = b"".join(a_request(choose) for _ in range(choose.choice((1, 1, 1, 2, 5))))
    return mutated(data, choose)


# -- output ----------------------------------------------------------------------------------------


def answers(data: bytes, ended_by_reset: bool) -> list[tuple[int, bytes]]:
    """The statuses and bodies in what came back; Violation unless they are whole messages. A part that a
    reset cut off is left out."""
    found = []
    while data:
        head, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            if ended_by_reset:
                break
            raise Violation(f"half a head: {data[:200]!r}")
        line, *fields = head.split(b"\r\n")
        if not line.startswith(b"HTTP/1.1 ") or not line[9:12].isdigit():
            raise Violation(f"no status line: {line!r}")
        status = int(line[9:12])
        names = {name.lower(): value for name, _, value in (field.partition(b": ") for field in fields)}
        if status in (100, 103):
            if fields != ([] if status == 100 else [b"link: </a>"]):
                raise Violation(f"{status} with other fields: {head!r}")
            data = rest
            continue
        if status == 101:
            return [*found, (101, b"")]
        if status not in STATUSES:
            raise Violation(f"status {status}")
        if b"date" not in names or any(byte in value for value in names.values() for byte in b"\r\n\0"):
            raise Violation(f"a head that is not in order: {head!r}")
        found.append((status, rest))
        if status in (204, 304) or HEADS.get(len(found) - 1):
            data = rest
            body = b""
        elif names.get(b"transfer-encoding") == b"chunked":
            body, data = dechunked(rest, ended_by_reset)
        elif b"content-length" in names:
            size = int(names[b"content-length"])
            if len(rest) < size and not ended_by_reset:
                raise Violation(f"{len(rest)} bytes of a body of {size}, and a clean end")
            body, data = rest[:size], rest[size:]
        else:
            body, data = rest, b""
        found[-1] = (status, body)
    return found


HEADS: dict[int, bool] = {}
"""Which of the present input's answers are to HEAD and have no body, by their place."""


def dechunked(data: bytes, ended_by_reset: bool) -> tuple[bytes, bytes]:
    body = b""
    while True:
        line, end, rest = data.partition(b"\r\n")
        if not end:
            if ended_by_reset:
                return body, b""
            raise Violation("a chunked body without its end, and a clean end of the connection")
        size = int(line, 16)
        if size == 0 and rest.startswith(b"x-trailer: yes\r\n"):
            rest = rest.partition(b"\r\n")[2]
        if len(rest) < size + 2:
            if ended_by_reset:
                return body, b""
            raise Violation("a chunk that is cut off, and a clean end of the connection")
        body, data = body + rest[:size], rest[size + 2 :]
        if size == 0:
            return body, data


class Fuzzer:
    def __init__(self, seed: int, application: Any = application):
        """`application` speaks WSGI or ASGI."""
        self.choose = random.Random(seed)
        self.seed = seed
        self.log = SlowLog(random.Random(seed))
        self.reports: list[str] = []
        self.inputs = 0
        self.server = Server(
            application,
            port=0,
            defer_accept=False,
            error_log=self.log.stream,
            head_seconds=5,
            body_seconds=5,
            linger_seconds=0.2,
            ping_seconds=1,
            body_bytes=100_000,
            access_log=io.StringIO(),
        )

    def talk(self, data: bytes, pieces: list[bytes]) -> list[tuple[int, bytes]]:
        """Sends the pieces, says that no more comes, and reads to the end."""
        received, reset = b"", False
        with socket.create_connection(self.server.address, timeout=10) as client:
            try:
                for piece in pieces:
                    client.sendall(piece)
                    if len(pieces) > 1:
                        syncless.sleep(0)
                client.shutdown(socket.SHUT_WR)
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
                    raise
                # it has been refused, and the answer may have come; that it was a reset is told only once
                reset = True
            try:
                while block := client.recv(65536):
                    received += block
            except ConnectionResetError:
                reset = True
            except TimeoutError:
                raise Violation(
                    f"neither an answer nor an end for 10 s; so far {received[-300:]!r}"
                ) from None
        return answers(received, reset)

    def check(self, data: bytes) -> None:
        HEADS.clear()
        if b"HEAD" in data:
            return self.survive(
                data
            )  # which answers have bodies cannot be told from outside when the input is garbled
        whole = self.talk(data, [data])
        cuts = sorted(self.choose.randrange(len(data) + 1) for _ in range(self.choose.randint(1, 4)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        for split in [pieces] if len(data) > 2000 else [pieces, [data[i : i + 1] for i in range(len(data))]]:
            again = self.talk(data, split)
            # where the server resets at the end, the answers before it may or may not have been read: compare
            # what both have
            shared = min(len(again), len(whole))
            if [status for status, _ in again[: shared - 1]] != [status for status, _ in whole[: shared - 1]]:
                sizes = [len(piece) for piece in split][:20]
                raise Violation(f"split at {sizes} it says {again[:9]!r}, whole {whole[:9]!r}")
            if len(again) != len(whole) and not self.closes(data, whole, again):
                raise Violation(
                    f"split it gives {len(again)} answers, whole {len(whole)}: {again!r} {whole!r}"
                )
        return None

    @staticmethod
    def closes(data: bytes, whole: list[tuple[int, bytes]], again: list[tuple[int, bytes]]) -> bool:
        """Whether the difference is one that the end of the connection explains. It ends when a client waits
        for 100 and the application has answered: /impatient may have begun to read before, or not."""
        longer = max(whole, again, key=len)
        return (
            longer[-1][0] >= 400
            or longer[-1][0] == 101
            or any(body in (b"begun", b"short") for _, body in longer)
            or b"100-continue" in data.lower()
        )

    def survive(self, data: bytes) -> None:
        """Rude clients: they reset, vanish, or do not read."""
        with socket.create_connection(self.server.address, timeout=10) as client:
            try:
                client.sendall(data)
                syncless.sleep(0)
                if self.choose.random() < 0.5:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass

    def pure(self) -> None:
        """The parsers that take a client's bytes in Python: they refuse with ValueError or give an answer,
        and it is the same twice."""
        data = mutated(
            self.choose.choice(
                (b"PROXY TCP4 1.1.1.1 2.2.2.2 3 4\r\n", SIGNATURE + b"\x21\x11\x00\x0c" + bytes(12))
            ),
            self.choose,
        )
        try:
            found = parse_proxy_header(data)
            if found is not None and (found.size > len(data) or parse_proxy_header(data + b"more") != found):
                raise Violation(f"PROXY header {data!r}: {found}")
        except ValueError:
            pass
        text = mutated(b'for="[::1]:80";proto=https, for=1.1.1.1', self.choose).decode("latin-1")
        for fields, key in (
            (("forwarded",), "HTTP_FORWARDED"),
            (("x-forwarded-for",), "HTTP_X_FORWARDED_FOR"),
        ):
            variables = {"REMOTE_ADDR": "10.0.0.1", key: text}
            Forwarding(Trust(["10.0.0.0/8"]), fields)(EnvironRequest(variables))
            if variables.get("HTTPS", "on") != "on" or "\n" in variables["REMOTE_ADDR"]:
                raise Violation(f"{key}: {text!r} made {variables}")

    def run(self, seconds: float, say=print) -> int:
        """Fuzzes for so long. Returns the number of inputs; Violation, with the input, at the first that
        breaks the invariant."""
        previous = syncless.set_error_handler(lambda where, error: self.reports.append(f"{where}: {error!r}"))
        self.server.start()
        started = told = time.monotonic()
        data = b""
        try:
            while time.monotonic() - started < seconds:
                data = some_input(self.choose)
                (self.survive if self.choose.random() < 0.2 else self.check)(data)
                self.pure()
                self.inputs += 1
                if self.inputs % 50 == 0:
                    self.look_around()
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    passed = f"{told - started:.0f} of {seconds:.0f} s"
                    say(f"{self.inputs} inputs, {self.server.requests} requests, {passed}")
            self.at_the_end()
        except BaseException as error:
            raise Violation(f"seed {self.seed}, input {self.inputs}: {error}\n{data!r}") from error
        finally:
            self.server.stop(0)
            self.log.close()
            syncless.set_error_handler(previous)
        return self.inputs

    def look_around(self) -> None:
        if self.reports:
            raise Violation(f"reported: {self.reports[0]}")
        entries = re.split(r"\n(?! )", self.log.take())  # further lines of an entry are indented
        errors = [entry for entry in entries if "[ERROR]" in entry]
        strange = [entry for entry in errors if not re.search("on purpose|its Content-Length is", entry)]
        if strange:
            raise Violation(f"logged: {strange[0]}")
        if self.talk(b"", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]) != [(200, b"hello")]:
            raise Violation("a new client is not served")

    def at_the_end(self) -> None:
        self.look_around()
        for _ in range(600):
            if not any(self.server.census().values()):
                return
            syncless.sleep(0.01)
        raise Violation(f"left behind: {self.server.census()}")


APPLICATIONS = {"wsgi": application, "asgi": asgi_application}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long (default 60)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the random choices (default: the process number)"
    )
    parser.add_argument(
        "--interface", choices=APPLICATIONS, help="only this one (default: each half the time)"
    )
    options = parser.parse_args()
    faulthandler.enable()
    seed = os.getpid() if options.seed is None else options.seed
    print(f"fuzzing for {options.seconds:.0f} s with seed {seed}", flush=True)
    try:
        chosen = [options.interface] if options.interface else list(APPLICATIONS)
        seconds = options.seconds / len(chosen)
        inputs = sum(Fuzzer(seed, APPLICATIONS[each]).run(seconds) for each in chosen)
    except Violation as violation:
        print(f"the invariant does not hold: {violation}", file=sys.stderr)
        return 1
    print(f"{inputs} inputs, and the invariant holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
