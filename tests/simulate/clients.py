"""Clients that do what they should: each request must get one whole answer, its own, and soon.

Takes: a World (episode.py), which connects them. Gives: Wrong, if they do not get what they should.
"""

import itertools
import random
import struct
from socket import SHUT_WR

from h2.events import DataReceived, ResponseReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

import syncless
from tests.http2_client import Client
from tests.simulate.application import IN_THREADS, LETTERS, SIZES, expected

SOON = 2.0
"""Virtual seconds until an answer is there; of those that the world has let pass itself nothing counts."""
ROOMY = 1 << 22
"""Bytes of a window: more than all responses of a connection."""
ASGI_VIEWS = [*IN_THREADS, "list", "parts", "fields", "sleep"]
HANDSHAKE = (
    b"Host: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Refused(Exception):
    """The server says that it is busy, and is allowed to."""


class Ended(EOFError):
    """The connection has ended before an answer."""


class Wrong(Exception):
    """Something is not as it must be: a finding."""


class Good:
    """What all of them do. `chance` is a random.Random of its own."""

    def __init__(self, world, chance):
        self.world, self.chance = world, chance

    def run(self):
        kind = self.chance.choice(self.kinds())
        try:
            with self.world.connect("good", "h2" if kind in (http2, tunnels) else "http/1.1") as sock:
                kind(self, sock)
        except Refused:
            pass
        except (OSError, EOFError, AssertionError, ProtocolError) as error:
            if self.world.scarce and not isinstance(error, TimeoutError):
                return
            if self.world.stops and type(error) is not EOFError:
                return
            raise Wrong(f"a good client of {kind.__name__}: {type(error).__name__}: {error}") from error

    def kinds(self):
        found = [http1, http1] if self.world.native else [http1, http1, http2, http2]
        if self.world.calm or self.world.stops:  # a stop ends WebSockets
            return found
        return [*found, websocket, *([] if self.world.native else [tunnels])]

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

    def upload(self, native=()):
        """The same of a request with a body."""
        prefix, _ = self.chance.choice(self.world.places)
        view, number = self.chance.choice(["echo", "lines"]), str(self.world.number())
        body = bytes(self.chance.choice(b"xyz\n") for _ in range(100)) * (self.chance.choice(SIZES) // 100)
        if native and body and self.world.native and self.chance.random() < 0.7:
            prefix, view = "", self.chance.choice(native)
        return f"{prefix}/{view}?is={number}", None if view.startswith("native") else number, body

    def send(self, sock, data, ends):
        """In pieces, between which it pauses. When it was over, or the error that ended it."""
        places = sorted(self.chance.randrange(len(data)) for _ in range(self.chance.choice([0, 0, 1, 3])))
        try:
            for begin, end in itertools.pairwise([0, *places, len(data)]):
                sock.sendall(data[begin:end])
                if end < len(data):
                    self.pause()
            if ends:
                sock.shutdown(SHUT_WR)
        except OSError as error:
            return error
        return self.world.clock()

    def check(self, path, began, status, found, body, number, wanted):
        world = self.world
        if status == 503 and (world.limited or world.stops):
            raise Refused
        if (status, found, body) != (200, number, wanted):
            size = None if body is None else len(body)
            raise Wrong(f"{path}: status {status}, X-Is {found}, {size} bytes for {len(wanted)}")
        took = world.clock() - began
        if took > SOON + world.skipped and not world.limited:
            raise Wrong(f"{path}: the answer took {took:.3f} s")
        world.answers += 1


def http1(good, sock):
    """Requests one after another, or several at once, in pieces. It reads while it sends, because a response
    may begin before its request has ended."""
    chance = good.chance
    file = sock.makefile("rb")
    times = chance.randrange(1, 5)
    for left in reversed(range(times)):
        asked, data = [], b""
        for _ in range(chance.choice([1, 1, 1, 3])):
            if chance.random() < 0.3:
                path, number, body = good.upload(["native/echo", "native/mirror", "echo/pass"])
                data += f"POST {path} HTTP/1.1\r\nHost: a\r\n".encode() + framed(body, chance)
            else:
                path, number, body = good.wanted()
                data += f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
            asked.append((path, number, body))
        ends = left == 0 and good.world.half_closes and chance.random() < 0.3
        sender = syncless.spawn(good.send, sock, data, ends)
        for path, number, body in asked:
            found = response(file)
            sent = sender.result(20)
            if isinstance(sent, OSError):
                raise sent
            good.check(path, sent, *found, number, body)
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
    if not line:
        raise Ended("the connection ended before a response")
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
    if chance.random() < 0.3:  # one that says nothing while it reads
        client.opens_windows = False
        client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: ROOMY})
        client.h2.increment_flow_control_window(ROOMY)
        client.flush()
        client.get("/list?size=0")  # the server knows it now
    for _ in range(chance.randrange(1, 4)):
        asked = []
        for _ in range(chance.randrange(1, 5)):
            if chance.random() < 0.25:
                path, number, body = good.upload()
                stream = client.ask(path, "POST", ends=False)
                at = chance.choice([0, len(body), len(body) // 2])
                client.upload(stream, body[:at], ends=False)
                good.pause()
                client.upload(stream, body[at:])
            else:
                path, number, body = good.wanted()
                stream = client.ask(path)
            asked.append((path, good.world.clock(), stream, number, body))
        for path, began, stream, number, body in asked:
            status, fields, found = client.answer(stream)
            good.check(path, began, status, fields.get("x-is"), found, number, body)
        good.pause()


def tunnels(good, sock):
    """A WebSocket over HTTP/2, beside requests."""
    chance, world = good.chance, good.world
    client = Client.over(sock)
    prefix, _ = chance.choice(world.places)
    path, began = f"{prefix}/ws", world.clock()
    fields = ((":protocol", "websocket"), ("sec-websocket-version", "13"))
    stream = client.ask(path, "CONNECT", *fields, ends=False)
    status = dict(client.wait_for(ResponseReceived, stream).headers)[":status"]
    good.check(path, began, int(status), "-", b"", "-", b"")
    file = StreamFile(client, stream)
    for _ in range(chance.randrange(5)):
        said = b"m" * chance.choice([0, 1, 125, 126, 3000, 70000])
        began = world.clock()
        client.upload(stream, message(chance.choice([1, 2]), said), ends=False)
        if chance.random() < 0.3 and not world.limited:  # it answers no pings meanwhile
            other, number, body = good.wanted()
            status, fields, found = client.get(other)
            good.check(other, began, status, fields.get("x-is"), found, number, body)
        good.check(path, began, 200, "-", heard(file), "-", said)
        good.pause()
    client.upload(stream, message(8, b"\x03\xe8"), ends=False)
    good.check(path, began, 200, "-", heard(file), "-", b"\x03\xe8")


class StreamFile:
    """What comes on a stream of HTTP/2, as a file."""

    def __init__(self, client, stream):
        self.client, self.stream = client, stream
        self.bytes, self.seen = b"", 0

    def read(self, size):
        while len(self.bytes) < size:
            while self.seen < len(self.client.events):
                event = self.client.events[self.seen]
                self.seen += 1
                if isinstance(event, DataReceived) and event.stream_id == self.stream:
                    self.bytes += event.data
            if len(self.bytes) < size and not self.client.read():
                break
        found, self.bytes = self.bytes[:size], self.bytes[size:]
        return found


def websocket(good, sock):
    """Messages that come back, then a close that is answered."""
    chance, world = good.chance, good.world
    prefix, _ = chance.choice(world.places)
    path = f"{prefix}/ws"
    sock.sendall(f"GET {path} HTTP/1.1\r\n".encode() + HANDSHAKE)
    file = sock.makefile("rb")
    began = world.clock()
    status, _, _ = response(file)
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
        first, size = exactly(file, 2)
        if size == 126:
            (size,) = struct.unpack("!H", exactly(file, 2))
        elif size == 127:
            (size,) = struct.unpack("!Q", exactly(file, 8))
        part = exactly(file, size)
        if first & 15 in (9, 10):
            continue
        said += part
        if first & 0x80:
            return said


def exactly(file, size):
    data = file.read(size)
    if len(data) < size:
        raise EOFError("the connection ended in a message")
    return data


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
