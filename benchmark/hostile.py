"""Instructions that a server spends on a byte of a hostile client, counted by valgrind's callgrind.

``python -m benchmark.hostile [ATTACK ...] [--tree DIR]``. A client that floods a server gains nothing if its
bytes cost no more than those of ordinary requests. So the bound of all attacks is the price of a byte of the
smallest request of its protocol, times `FACTOR`. Whatever would cost more has a price by which its connection
is ended; the connections that it then needs count, too. Fails if an attack is beyond its bound.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import shutil
import socket
import sys
from collections.abc import Callable, Iterator

from benchmark.instructions import HERE, frame, served

FACTOR = 2.0
ENOUGH = 12  # lists of fields for which a connection is ended; to send more would waste bytes
WARM, MORE = 40, 160  # pieces
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(4, 1, 0)
FIRST = b"\x82\x86\x84\x41\x01a"  # GET, http, /, :authority: a, which enters the table
GET = b"\x82\x86\x84\xbe"  # the same, from the table
LARGE = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000  # a field for the table


@dataclasses.dataclass(frozen=True)
class Attack:
    does: str
    begins: bytes
    """Sent first on each connection."""
    piece: Callable[[int], bytes]
    """The bytes with this number, from 0, on a connection."""
    most: int = 1 << 30
    """Pieces for a connection."""

    def run(self, port: int, pieces: int) -> int:
        """Sends so many, on a new connection where the last has been ended; how many bytes that were."""
        sent = done = 0
        while done < pieces:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                for data in self.talk(sock, min(self.most, pieces - done)):
                    sent += len(data)
                    done += 1
                sent += len(self.begins)
        return sent

    def talk(self, sock: socket.socket, count: int) -> Iterator[bytes]:
        """Yields the pieces that have gone before the server ended the connection."""
        try:
            sock.sendall(self.begins)
            for number in range(count):
                data = self.piece(number)
                sock.sendall(data)
                yield data
                sock.setblocking(False)
                try:
                    while sock.recv(1 << 16):
                        pass
                    return
                except BlockingIOError:
                    sock.settimeout(60)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except ConnectionError:
            pass


def each(kind: int, flags: int, payload: bytes) -> Callable[[int], bytes]:
    """A frame for the connection."""
    return lambda number: frame(kind, flags, 0, payload) * 50


def heads(block: bytes, *behind: Callable[[int], bytes], flags: int = 5) -> Callable[[int], bytes]:
    """A head for a stream of its own, and more frames for that."""

    def piece(number: int) -> bytes:
        stream = 3 + 2 * number
        return frame(1, flags, stream, block) + b"".join(more(stream) for more in behind)

    return piece


def http1(name: bytes) -> Callable[[int], bytes]:
    return lambda number: name


ASKED = PREFACE + frame(1, 5, 1, FIRST)
OPEN = PREFACE + frame(1, 4, 1, b"\x83" + FIRST[1:])  # POST
UPLOAD = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

ATTACKS = {
    "http2": Attack("the smallest request", ASKED, heads(GET)),
    "http2-bomb": Attack(
        "a list of fields far beyond the limit",
        PREFACE + frame(1, 5, 1, FIRST + LARGE),
        heads(b"\x82\x86\x84\xbf" + b"\xbe" * 12_000),
        most=ENOUGH,
    ),
    "http2-431": Attack(
        "a list of fields a little beyond the limit",
        PREFACE + frame(1, 5, 1, FIRST + LARGE),
        heads(b"\x82\x86\x84\xbf" + b"\xbe" * 20),
        most=ENOUGH,
    ),
    "http2-list": Attack(
        "a list of fields just below the limit",
        PREFACE + frame(1, 5, 1, FIRST + LARGE),
        heads(b"\x82\x86\x84\xbf" + b"\xbe" * 7),
        most=ENOUGH,
    ),
    "http2-cookies": Attack(
        "cookies of a byte each",
        PREFACE + frame(1, 5, 1, FIRST + b"\x60\x01c"),
        heads(b"\x82\x86\x84\xbf" + b"\xbe" * 800),
    ),
    "http2-trailers": Attack(
        "trailers far beyond the limit",
        PREFACE + frame(1, 5, 1, FIRST + LARGE),
        heads(b"\x83\x86\x84\xbf", lambda stream: frame(1, 5, stream, b"\xbe" * 12_000), flags=4),
        most=ENOUGH,
    ),
    "http2-table": Attack("a table of another size in each head", ASKED, heads(b"\x20\x3f\xe1\x1f" + FIRST)),
    "http2-continued": Attack(
        "a head in many empty frames",
        ASKED,
        lambda number: (
            frame(1, 1, 3 + 2 * number, GET) + frame(9, 0, 3 + 2 * number) * 50 + frame(9, 4, 3 + 2 * number)
        ),
    ),
    "http2-reset": Attack(
        "requests that are reset at once",
        ASKED,
        heads(GET, lambda stream: frame(3, 0, stream, b"\0\0\0\x08")),
    ),
    "http2-refused": Attack("more streams than allowed", ASKED, heads(b"\x83" + GET[1:], flags=4)),
    "http2-malformed": Attack("malformed fields", ASKED, heads(GET + b"\0\x01a\x01\0")),
    "http2-pings": Attack("pings", ASKED, each(6, 0, bytes(8))),
    "http2-settings": Attack("settings", ASKED, each(4, 0, b"\0\4\0\1\0\0")),
    "http2-priorities": Attack("priorities", ASKED, lambda number: frame(2, 0, 1, b"\0\0\0\3\x10") * 50),
    "http2-unknown": Attack("unknown frames", ASKED, each(200, 0, b"")),
    "http2-windows": Attack(
        "windows that open by a byte", OPEN, lambda number: frame(8, 0, 1, b"\0\0\0\1") * 50
    ),
    "http2-empty": Attack("empty frames of a body", OPEN, lambda number: frame(0, 0, 1) * 50),
    "http2-crumbs": Attack("a body byte by byte", OPEN, lambda number: frame(0, 0, 1, b"x") * 50),
    "http2-connections": Attack("connections that say hello", PREFACE, http1(b""), most=1),
    "http1": Attack("the smallest request", b"", http1(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")),
    "http1-fields": Attack(
        "small fields", b"", http1(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a:b\r\n" * 90 + b"\r\n")
    ),
    "http1-names": Attack(
        "different fields",
        b"",
        lambda number: (
            b"GET / HTTP/1.1\r\nHost: a\r\n"
            + b"".join(b"%x-%x:b\r\n" % (number, i) for i in range(90))
            + b"\r\n"
        ),
    ),
    "http1-escapes": Attack(
        "an escaped path", b"", http1(b"GET /" + b"%41" * 2000 + b" HTTP/1.1\r\nHost: a\r\n\r\n")
    ),
    "http1-chunks": Attack("chunks of a byte", UPLOAD, http1(b"1\r\nx\r\n" * 200)),
    "http1-extensions": Attack("extensions of chunks", UPLOAD, http1(b"1;" + b"a" * 200 + b"\r\nx\r\n")),
    "http1-bytes": Attack("a head byte by byte", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", http1(b"x" * 20)),
    "http1-malformed": Attack("malformed requests", b"", http1(b"\0\r\n\r\n"), most=1),
    "http1-connections": Attack(
        "connections that ask once", b"", http1(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), most=1
    ),
}


def cost(attack: Attack, tree: pathlib.Path) -> float:
    """Instructions for each byte."""
    sent = []

    def load(port: int, pieces: int) -> None:
        sent.append(attack.run(port, pieces))

    def command(port: int) -> list[str]:
        return [str(HERE / "servers" / "run_syncless.py"), str(port), "http2"]

    few, many = (served(load, pieces, command, tree) for pieces in (WARM, WARM + MORE))
    return (many - few) / (sent[1] - sent[0])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmark.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"{', '.join(ATTACKS)}; default: all")
    parser.add_argument("--tree", type=pathlib.Path, default=HERE.parent, help="the built checkout to count")
    options = parser.parse_args()
    for name in options.attacks:
        if name not in ATTACKS:
            parser.error(f"there is no attack {name!r}; choose from {', '.join(ATTACKS)}")
    if shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    bounds: dict[str, float] = {}
    beyond = []
    for name in options.attacks or ATTACKS:
        protocol = name.partition("-")[0]
        if protocol not in bounds:
            bounds[protocol] = FACTOR * cost(ATTACKS[protocol], options.tree.resolve())
        needed = cost(ATTACKS[name], options.tree.resolve())
        if needed > bounds[protocol]:
            beyond.append(name)
        print(f"{name:18} {needed:8,.0f} of {bounds[protocol]:8,.0f}  {ATTACKS[name].does}", flush=True)
    if beyond:
        sys.exit(f"beyond their bound: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
