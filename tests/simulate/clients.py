"""Clients that do what they should: each request must get one whole answer, its own, and soon.

Takes: a World (episode.py), which connects them. Gives: Wrong, if they do not get what they should.
"""

import random
import struct

from tests.http2_client import Client
from tests.simulate.application import IN_THREADS, LETTERS, SIZES, expected

SOON = 2.0
"""Virtual seconds until an answer is there; of those that the world has let pass itself nothing counts."""
ASGI_VIEWS = [*IN_THREADS, "list", "parts", "fields", "sleep"]
HANDSHAKE = (
    b"Host: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Wrong(Exception):
    """Something is not as it must be: a finding."""


class Good:
    """What all of them do. `chance` is a random.Random of its own."""

    def __init__(self, world, chance):
        self.world, self.chance = world, chance

    def run(self):
        kind = self.chance.choice([http1, http1, http2, http2, *([] if self.world.calm else [websocket])])
        try:
            with self.world.connect("good", "h2" if kind is http2 else "http/1.1") as sock:
                kind(self, sock)
        except (OSError, EOFError, AssertionError) as error:
            if self.world.scarce and not isinstance(error, TimeoutError):
                return
            raise Wrong(f"a good client of {kind.__name__}: {type(error).__name__}: {error}") from error

    def pause(self):
        self.world.pause(self.chance)

    def wanted(self):
        """(path with its query, X-Is, the body that it must have)."""
        prefix, views = self.chance.choice(self.world.places)
        view = self.chance.choice(views)
        size, count = self.chance.choice(SIZES), self.chance.choice([1, 2, 4])
        number = self.world.number()
        return (
            f"{prefix}/{view}?size={size}&count={count}&is={number}",
            str(number),
            expected(view, size, count),
        )

    def upload(self):
        """The same of a request with a body."""
        prefix, _ = self.chance.choice(self.world.places)
        number = self.world.number()
        body = bytes(self.chance.choice(b"xyz\n") for _ in range(100)) * (self.chance.choice(SIZES) // 100)
        return f"{prefix}/{self.chance.choice(['echo', 'lines'])}?is={number}", str(number), body

    def check(self, path, began, status, found, body, number, wanted):
        world = self.world
        if (status, found, body) != (200, number, wanted):
            size = None if body is None else len(body)
            raise Wrong(f"{path}: status {status}, X-Is {found}, {size} bytes for {len(wanted)}")
        took = world.clock() - began
        if took > SOON + world.skipped:
            raise Wrong(f"{path}: the answer took {took:.3f} s")
        world.answers += 1


def http1(good, sock):
    """Requests one after another, or several at once, in pieces."""
    chance = good.chance
    file = sock.makefile("rb")
    for _ in range(chance.randrange(1, 5)):
        asked, data = [], b""
        for _ in range(chance.choice([1, 1, 1, 3])):
            if chance.random() < 0.3:
                path, number, body = good.upload()
                data += f"POST {path} HTTP/1.1\r\nHost: a\r\n".encode() + framed(body, chance)
            else:
                path, number, body = good.wanted()
                data += f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
            asked.append((path, number, body))
        at = chance.randrange(len(data)) if chance.random() < 0.3 else 0
        for part in data[:at], data[at:]:
            sock.sendall(part)
            if at:
                good.pause()
        began = good.world.clock()
        for path, number, body in asked:
            good.check(path, began, *response(file), number, body)
        good.pause()


def framed(body, chance):
    """The rest of the head, and the body: in one piece or in chunks."""
    if chance.random() < 0.6:
        return b"Content-Length: %d\r\n\r\n" % len(body) + body
    parts, step = [], chance.choice([1000, 7000, 100000])
    for at in range(0, len(body), step):
        part = body[at : at + step]
        parts.append(b"%x\r\n%s\r\n" % (len(part), part))
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(parts) + b"0\r\n\r\n"


def response(file):
    """(status, X-Is, body)."""
    line = file.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError(f"the connection ended after {line!r} of a response")
    fields = {}
    while (text := file.readline()) != b"\r\n":
        name, colon, value = text.partition(b":")
        if not colon:
            raise EOFError(f"the connection ended after {text!r} of a head")
        fields[name.lower()] = value.strip().decode()
    if fields.get(b"transfer-encoding") == "chunked":
        body = b"".join(iter(lambda: chunk(file), b""))
    else:
        body = file.read(int(fields.get(b"content-length", 0)))
    return int(line.split()[1]), fields.get(b"x-is"), body


def chunk(file):
    size = int(file.readline() or b"x", 16)
    data = file.read(size)
    if len(data) < size or file.readline() != b"\r\n":
        raise EOFError("the connection ended in a chunk")
    return data


def http2(good, sock):
    """Several streams at a time."""
    chance = good.chance
    client = Client.over(sock)
    for _ in range(chance.randrange(1, 4)):
        asked = []
        for _ in range(chance.randrange(1, 5)):
            if chance.random() < 0.25:
                path, number, body = good.upload()
                stream = client.ask(path, "POST", ends=False)
                client.upload(stream, body)
            else:
                path, number, body = good.wanted()
                stream = client.ask(path)
            asked.append((path, good.world.clock(), stream, number, body))
        for path, began, stream, number, body in asked:
            status, fields, found = client.answer(stream)
            good.check(path, began, status, fields.get("x-is"), found, number, body)
        good.pause()


def websocket(good, sock):
    """Messages that come back, then a close that is answered."""
    chance, world = good.chance, good.world
    prefix, _ = chance.choice(world.places)
    path = f"{prefix}/ws"
    sock.sendall(f"GET {path} HTTP/1.1\r\n".encode() + HANDSHAKE)
    file = sock.makefile("rb")
    began = world.clock()
    status = int((file.readline() or b"- 0").split()[1])
    while file.readline() not in (b"\r\n", b""):
        pass
    good.check(path, began, {101: 200}.get(status, status), "-", b"", "-", b"")
    for _ in range(chance.randrange(5)):
        said = b"m" * chance.choice([0, 1, 125, 126, 3000, 70000])
        began = world.clock()
        sock.sendall(message(chance.choice([1, 2]), said))
        good.check(path, began, 200, "-", heard(file), "-", said)
        good.pause()
    sock.sendall(message(8, b"\x03\xe8"))
    good.check(path, began, 200, "-", heard(file), "-", b"\x03\xe8")


def heard(file):
    """The next message of the server's: it may come in several frames, with pings between them."""
    said = b""
    while True:
        first, size = struct.unpack("!BB", file.read(2))
        if size > 125:
            (size,) = struct.unpack(*("!H", file.read(2)) if size == 126 else ("!Q", file.read(8)))
        part = file.read(size)
        if first & 15 in (9, 10):
            continue
        said += part
        if first & 0x80:
            return said


def message(opcode, payload=b"", fin=True):
    size = len(payload)
    head = bytes([opcode | fin << 7])
    if size < 126:
        head += bytes([size | 0x80])
    else:
        head += (
            bytes([0xFE]) + struct.pack("!H", size)
            if size < 65536
            else bytes([0xFF]) + struct.pack("!Q", size)
        )
    mask = b"\x01\x02\x03\x04"
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


def views(kind):
    """Those of which a client can tell the answer."""
    return sorted(LETTERS) if kind == "wsgi" else sorted(ASGI_VIEWS)


def random_of(chance):
    return random.Random(chance.random())
