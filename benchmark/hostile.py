"""Instructions that a server spends on a byte of a hostile client, counted by valgrind's callgrind.

``python -m benchmark.hostile [ATTACK ...] [--tree DIR]``. A client that floods a server gains nothing if its
bytes cost no more than those of ordinary requests. So the bound of an attack is the price of a byte of the
smallest request of its protocol, times the factor of the attack, mostly two. Whatever would cost more has a
price by which its connection is ended; the connections that it then needs count, too. Fails if an attack is
beyond its bound; status 77, as a part of ``make check``, where valgrind is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator

from benchmark.instructions import HERE, collected, frame

ENOUGH = 12  # lists of fields for which a connection is ended; to send more would waste bytes
WARM, MORE = 40, 160  # pieces
HEADERS = 120  # bytes: a client's packets that begin and end a connection have three of IP and TCP at least
SKIPPED = 77  # as in tests/parts.py
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
    factor: int = 2
    """How many times the smallest price a byte may cost. More than two only where time bounds it."""

    def run(self, port: int, pieces: int) -> int:
        """Sends so many, on a new connection where the last has been ended; how many bytes that were."""
        sent = done = 0
        while done < pieces:
            with socket.create_connection(("127.0.0.1", port), timeout=600) as sock:
                for data in self.talk(sock, min(self.most, pieces - done)):
                    sent += len(data)
                    done += 1
                sent += len(self.begins) + HEADERS
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
                    sock.settimeout(600)
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


def message(first: int, payload: bytes = b"") -> bytes:
    """A frame of a WebSocket with a mask of zeros. `first`: its bits and opcode."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([first]) + size + bytes(4) + payload


def packed(data: bytes) -> bytes:
    """Compressed, as a message of a WebSocket (RFC 7692)."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]


def asking(field: bytes, name: bytes = b"/") -> bytes:
    return b"GET " + name + b" HTTP/1.1\r\nHost: a\r\n" + field + b"\r\n\r\n"


ASKED = PREFACE + frame(1, 5, 1, FIRST)
OPEN = PREFACE + frame(1, 4, 1, b"\x83" + FIRST[1:])  # POST
WEBSOCKET = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
DEFLATING = WEBSOCKET + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
ANNOUNCED = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 1\r\n"
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
    "http2-window": Attack("a connection's window that opens by a byte", ASKED, each(8, 0, b"\0\0\0\1")),
    "http2-sips": Attack(
        "responses that are read byte by byte",
        PREFACE + frame(4, 0, 0, b"\0\4\0\0\0\0") + frame(1, 5, 1, FIRST),
        heads(GET, *[lambda stream: frame(8, 0, stream, b"\0\0\0\1")] * 13),
    ),
    "http2-updates": Attack("updates of priorities", ASKED, each(16, 0, b"\0\0\0\1u=1")),
    "http2-acks": Attack("acknowledged settings that nobody has sent", ASKED, each(4, 1, b"")),
    "http2-padding": Attack("padding", OPEN, lambda number: frame(0, 8, 1, b"\2\0\0") * 50),
    "http2-huffman": Attack(
        "names and values in Huffman's code", ASKED, heads(GET + b"\0\x81\x1f\xfe" + b"\x8a\x62\xfa\x1e" * 3)
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
    "http1-trailers": Attack("trailers", b"", http1(UPLOAD + b"0\r\n" + b"a:b\r\n" * 400 + b"\r\n")),
    "http1-absolute": Attack(
        "absolute targets", b"", http1(asking(b"A: b", b"http://a" + b".a" * 500 + b"/"))
    ),
    "http1-cookies": Attack("cookies", b"", lambda number: asking(b"Cookie: %d" % number + b"a=b; " * 300)),
    "http1-bytes": Attack("a head byte by byte", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", http1(b"x" * 20)),
    "http1-malformed": Attack("malformed requests", b"", http1(b"\0\r\n\r\n"), most=1),
    "http1-connections": Attack(
        "connections that ask once", b"", http1(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), most=1
    ),
    "websocket": Attack("the smallest message", WEBSOCKET + b"\r\n", http1(message(0x81) * 10)),
    "websocket-fragments": Attack(
        "empty fragments", WEBSOCKET + b"\r\n" + message(0x01), http1(message(0x00) * 50)
    ),
    "websocket-crumbs": Attack(
        "fragments of a byte", WEBSOCKET + b"\r\n" + message(0x01), http1(message(0x00, b"x") * 50)
    ),
    "websocket-bytes": Attack(
        "a message byte by byte", WEBSOCKET + b"\r\n" + message(0x81, b"x" * 60_000)[:8], http1(b"x" * 20)
    ),
    "websocket-pings": Attack("pings", WEBSOCKET + b"\r\n", http1(message(0x89) * 50)),
    "websocket-pongs": Attack("pongs", WEBSOCKET + b"\r\n", http1(message(0x8A) * 50)),
    "websocket-malformed": Attack("malformed frames", WEBSOCKET + b"\r\n", http1(message(0xF1)), most=1),
    "websocket-handshakes": Attack(
        "malformed handshakes", b"", http1(WEBSOCKET.replace(b"13", b"12") + b"\r\n"), most=1
    ),
    "deflate": Attack("the smallest compressed message", DEFLATING, http1(message(0xC1, packed(b"x")) * 10)),
    "deflate-bomb": Attack(
        "messages that grow a thousand times",
        DEFLATING,
        http1(message(0xC2, packed(bytes(1_000_000)))),
        most=3,
        factor=8,  # unpacking is the cost: `websocket_bytes` a second beyond a hundredfold, see limits.md
    ),
    "deflate-fragments": Attack(
        "compressed fragments",
        DEFLATING + message(0x41),
        http1(message(0x00, packed(b"x") + b"\0\0\xff\xff") * 10),
    ),
    "files": Attack("the smallest request", b"", http1(asking(b"A: b", b"/s/a.txt"))),
    "files-ranges": Attack("ranges", b"", http1(asking(b"Range: bytes=0-0" + b",1-1" * 500, b"/s/a.txt"))),
    "files-matches": Attack(
        "a list of tags", b"", http1(asking(b"If-None-Match: " + b'"a",' * 500, b"/s/a.txt"))
    ),
    "files-codings": Attack(
        "accepted codings",
        b"",
        lambda number: asking(b"Accept-Encoding: %d" % number + b",a" * 1000, b"/s/a.txt"),
    ),
    "files-names": Attack("names that are not there", b"", lambda number: asking(b"A: b", b"/s/%d" % number)),
    "files-folders": Attack("deep names", b"", http1(asking(b"A: b", b"/s" + b"/a" * 500))),
    "proxied": Attack(
        "the smallest request", b"", lambda number: asking(b"X-Forwarded-For: 192.0.2.%d" % (number % 9))
    ),
    "proxied-chain": Attack(
        "a long chain",
        b"",
        lambda number: asking(b"X-Forwarded-For: %d" % number + b",1" * 1000 + b",192.0.2.1"),
    ),
    "proxied-addresses": Attack(
        "clients", b"", lambda number: asking(b"X-Forwarded-For: 10.0.%d.%d" % divmod(number, 256))
    ),
    "proxied-hosts": Attack(
        "hosts", b"", http1(asking(b"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: a" + b",a" * 1000))
    ),
    "announced": Attack("connections that ask once", ANNOUNCED, http1(asking(b"A: b")), most=1),
    "announced-bytes": Attack(
        "a header byte by byte", b"\r\n\r\n\0\r\nQUIT\n\x20\0\x0f\xe0", http1(bytes(20)), most=180
    ),
    "announced-malformed": Attack("malformed headers", b"PROXY TCP4 1 1 1 1\r\n", http1(b""), most=1),
}


class Counted:
    """A server of a kind (servers/run_hostile.py) under callgrind."""

    def __init__(self, kind: str, folder: pathlib.Path, tree: pathlib.Path):
        self.counts = folder / kind
        self.dumps = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        script = str(HERE / "servers" / "run_hostile.py")
        self.process = collected([script, kind, str(self.port)], tree, self.counts)
        end = time.monotonic() + 600
        while self.process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            time.sleep(0.2)
        self.process.terminate()
        raise SystemExit(f"the server did not start:\n{self.process.communicate()[1]}")

    def count(self) -> int:
        """Instructions since the last call."""
        self.dumps += 1
        command = ["callgrind_control", f"--dump={self.dumps}", str(self.process.pid)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=600)
        found = re.search(
            r"^totals: (\d+)", pathlib.Path(f"{self.counts}.{self.dumps}").read_text(), re.MULTILINE
        )
        if not found:
            raise SystemExit("callgrind has written no total")
        return int(found[1])

    def cost(self, attack: Attack) -> float:
        """Instructions for each byte."""
        attack.run(self.port, WARM)
        self.count()
        sent = attack.run(self.port, MORE)
        return self.count() / sent


def costs(names: list[str], tree: pathlib.Path) -> Iterator[tuple[str, float, float]]:
    """Each attack, what its bytes cost, and its bound."""
    protocols = dict.fromkeys(name.partition("-")[0] for name in names)
    with tempfile.TemporaryDirectory() as folder:
        for protocol in protocols:
            server = Counted(protocol, pathlib.Path(folder), tree)
            try:
                smallest = server.cost(ATTACKS[protocol])
                for name in names:
                    if name.partition("-")[0] == protocol:
                        yield name, server.cost(ATTACKS[name]), ATTACKS[name].factor * smallest
            finally:
                server.process.terminate()
                server.process.communicate(timeout=600)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmark.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"{', '.join(ATTACKS)}; default: all")
    parser.add_argument("--tree", type=pathlib.Path, default=HERE.parent, help="the built checkout to count")
    options = parser.parse_args()
    for name in options.attacks:
        if name not in ATTACKS:
            parser.error(f"there is no attack {name!r}; choose from {', '.join(ATTACKS)}")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed")
        sys.exit(SKIPPED)
    beyond = []
    for name, needed, bound in costs(options.attacks or [*ATTACKS], options.tree.resolve()):
        if needed > bound:
            beyond.append(name)
        print(f"{name:20} {needed:8,.0f} of {bound:8,.0f}  {ATTACKS[name].does}", flush=True)
    if beyond:
        sys.exit(f"beyond their bound: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
