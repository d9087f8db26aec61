"""Clients that say odd things and leave in odd ways. They may get anything; the others must not notice.

Takes: a World (episode.py). Gives: nothing but Wrong, if a connection is open that should have been closed.
"""

from tests.simulate.application import SIZES
from tests.simulate.clients import HANDSHAKE, Wrong, message

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
VIEWS = [
    *(
        "list",
        "list",
        "parts",
        "endless",
        "fields",
        "lock",
        "lock",
        "timed",
        "queue",
        "condition",
        "sleep",
        "errors",
    ),
    *(
        "logging",
        "thread",
        "file",
        "database",
        "imports",
        "raise",
        "torn",
        "long",
        "badhead",
        "echo",
        "unread",
        "reader",
        "stays",
    ),
]
WITH_BODIES = {"echo", "lines", "unread", "reader"}
SETTINGS = [(6, 1), (6, 300), (6, 100000), (4, 0), (4, 1), (4, 1 << 20), (1, 0), (5, 16384), (3, 1)]
ODD = [
    *(message(1, b"hello"), message(2, b"x" * 40000), message(1, b"a", fin=False), message(0, b"b")),
    *(message(9, b"ping"), message(1, b"\xff"), message(3), message(8, b"\x03\xe8"), b"\x81\x02hi"),
    b"\x81\xff" + b"\x7f" * 8,
]
"""Frames of WebSockets."""
NATIVE = [
    *(b"/native/hello", b"/native/echo", b"/native/mirror", b"/native/forever", b"/native/fails"),
    *(b"/native/steps?12&size=5000", b"/native/steps?3&size=1&wait=300", b"/echo/pass", b"/echo/pass"),
]
ENDING = ["list", "parts", "sleep", "lock", "condition", "thread"]
IDLE = 100.0
"""Virtual seconds after which each limit of a connection is over."""


class Intruder:
    def __init__(self, world, chance):
        self.world, self.chance = world, chance
        self.waits = False
        """Whether it has asked for something that lasts for as long as it stays."""

    def run(self):
        chance = self.chance
        kind = chance.choice([http2, http2, http1, http1, websocket, resets, tunnels, noise])
        try:
            protocol = chance.choice(["h2" if kind in (http2, resets, tunnels) else "http/1.1", None])
            with self.world.connect("bad", protocol) as sock:
                sock.settimeout(chance.choice([0.001, 0.05, 5]))
                kind(self, sock)
                self.leave(sock)
        except (OSError, ValueError):
            pass

    def pause(self):
        self.world.pause(self.chance)

    def path(self, kinds=VIEWS):
        chance = self.chance
        view, (prefix, _) = chance.choice(kinds), chance.choice(self.world.places)
        self.waits |= view == "stays"
        return view, f"{prefix}/{view}/victim?size={chance.choice(SIZES)}&count=3".encode()

    def read(self, sock):
        if not sock.recv(self.chance.choice([1, 1000, 100000])):
            raise ConnectionError

    def leave(self, sock):
        chance = self.chance
        how = chance.choice(["half", "stays", "reads", "goes"])
        if how == "half":
            sock.shutdown(1)
            self.pause()
        elif how == "stays":
            seconds = chance.choice([0.1, 0.1 if self.waits else IDLE])
            self.world.sleep(seconds)
            if seconds == IDLE:
                is_closed(sock)
        elif how == "reads":
            sock.settimeout(3)
            for _ in range(30):
                self.read(sock)


def is_closed(sock):
    """It has asked for nothing for longer than each limit."""
    sock.settimeout(1)
    try:
        while sock.recv(100000):
            pass
    except TimeoutError:
        raise Wrong(f"a connection that is idle for {IDLE:.0f} s is open still") from None


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def head(path, method, *more):
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"), *more]
    return b"".join(b"\0%c%s%c%s" % (len(name), name, len(value), value) for name, value in fields)


def http2(intruder, sock):
    chance = intruder.chance
    settings = chance.sample(SETTINGS, chance.randrange(3))
    data = PREFACE + frame(
        4, 0, 0, b"".join(key.to_bytes(2, "big") + value.to_bytes(4, "big") for key, value in settings)
    )
    newest, reads = 1, chance.random() < 0.6
    for _ in range(chance.randrange(1, 20)):
        what = chance.random()
        stream = max(1, newest - 2 * chance.randrange(1, 6))
        if what < 0.5:
            for _ in range(chance.choice([1, 1, 3, 8])):
                view, path = intruder.path()
                post = view in WITH_BODIES
                data += frame(1, 4 if post else 5, newest, head(path, b"POST" if post else b"GET"))
                newest += 2
        elif what < 0.65:
            data += frame(3, 0, stream, bytes([0, 0, 0, chance.choice([0, 8, 8, 2])]))
        elif what < 0.75:
            data += frame(0, chance.choice([0, 1]), stream, b"d" * chance.choice(SIZES[:6]))
        elif what < 0.85:
            data += frame(
                8, 0, chance.choice([0, stream]), chance.choice([1, 65535, 1 << 24]).to_bytes(4, "big")
            )
        elif what < 0.9:
            data += frame(4, 0, 0, b"\0\4" + chance.choice([0, 100, 65535]).to_bytes(4, "big"))
        elif what < 0.93:
            data += frame(
                chance.randrange(11), chance.randrange(256), stream, chance.randbytes(chance.randrange(20))
            )
        if chance.random() < 0.7:
            sock.sendall(data)
            data = b""
        if reads and chance.random() < 0.5:
            intruder.read(sock)
        if chance.random() < 0.4:
            intruder.pause()
    sock.sendall(data)


def resets(intruder, sock):
    """It resets all that it has asked for, sometimes while that runs, and stays."""
    chance = intruder.chance
    data, streams = PREFACE + frame(4, 0, 0), range(1, 2 * chance.randrange(2, 5), 2)
    for stream in streams:
        _, path = intruder.path(ENDING)
        data += frame(1, 5, stream, head(path, b"GET"))
    sock.sendall(data)
    for _ in range(chance.randrange(3)):
        intruder.pause()
    for stream in streams:
        sock.sendall(frame(3, 0, stream, b"\0\0\0\x08"))
    if chance.random() < 0.5:
        sock.settimeout(5)
        sock.sendall(frame(6, 0, 0, b"a ping  "))
        intruder.read(sock)


def tunnels(intruder, sock):
    """WebSockets over HTTP/2, that say odd things."""
    chance = intruder.chance
    prefix, _ = chance.choice(intruder.world.places)
    data = PREFACE + frame(4, 0, 0)
    for stream in range(1, 2 * chance.randrange(2, 4), 2):
        fields = head(f"{prefix}/ws/victim".encode(), b"CONNECT", (b":protocol", b"websocket"))
        fields += b"\0\x15sec-websocket-version\x0213"
        data += frame(1, 4, stream, fields)
        for _ in range(chance.randrange(4)):
            said = chance.choice(ODD)[:16000]
            data += frame(0, chance.choice([0, 0, 0, 1]), stream, said)
            if chance.random() < 0.5:
                sock.sendall(data)
                data = b""
                intruder.pause()
        if chance.random() < 0.4:
            data += frame(3, 0, stream, b"\0\0\0\x08")
    sock.sendall(data)
    intruder.read(sock)


def http1(intruder, sock):
    chance = intruder.chance
    for _ in range(chance.randrange(1, 5)):
        view, path = intruder.path()
        if intruder.world.native and chance.random() < 0.4:
            path = chance.choice(NATIVE)
        if view in WITH_BODIES:
            body = chance.choice(
                [b"Content-Length: %d" % chance.choice(SIZES), b"Transfer-Encoding: chunked"]
            )
            data = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\n" + body + b"\r\n\r\n5\r\nxxxxx\r\n"
        else:
            data = b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        sock.sendall(
            data[: chance.randrange(len(data))] if chance.random() < 0.1 else data * chance.choice([1, 1, 4])
        )
        if chance.random() < 0.5:
            intruder.read(sock)
        intruder.pause()


def websocket(intruder, sock):
    chance = intruder.chance
    prefix, _ = chance.choice(intruder.world.places)
    sock.sendall(f"GET {prefix}/ws/victim HTTP/1.1\r\n".encode() + HANDSHAKE)
    if chance.random() < 0.7:
        intruder.read(sock)
    for _ in range(chance.randrange(6)):
        data = chance.choice(ODD)
        sock.sendall(data[: chance.randrange(1, len(data))] if chance.random() < 0.1 else data)
        if chance.random() < 0.3:
            intruder.read(sock)
        intruder.pause()


def noise(intruder, sock):
    chance = intruder.chance
    sock.sendall(
        chance.choice(
            [b"", b"G", b"GET / HTTP/1.1\r\nHost", PREFACE[:9], chance.randbytes(50), b"\x16\3\1\1"]
        )
    )
    intruder.pause()
