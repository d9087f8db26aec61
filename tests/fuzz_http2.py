"""Invariant: whatever frames clients send, in any order, other clients are served, and at the end the server
owns nothing: no connection, buffer, deadline or request.

``python -m tests.fuzz_http2 --seconds 60 --seed 1`` runs a server and hostile clients in one process, half of
the time with a WSGI application, then with one of ASGI, as `make fuzz` does. A violation ends it; the seed
brings it back.
"""

import argparse
import contextlib
import random
import time

import syncless
from syncless.io import socket
from syncless.wsgi import Server
from tests.fuzzed_asgi import application as asgi_application
from tests.http.test_websocket import frame as message
from tests.slowlog import SlowLog

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
GET = b"\x82\x86\x84\x41\x01a"  # GET, http, /, :authority a
POST = b"\x83" + GET[1:]
PATHS = [b"/echo", b"/stream", b"/late", b"/error", b"/short", b"/long", b"/unread"]
WEBSOCKET = (  # an extended CONNECT (RFC 8441)
    b"\x02\x07CONNECT\x86\x84\x41\x01a\0\x09:protocol\x09websocket\0\x15sec-websocket-version\x0213"
)
MESSAGES = [
    message(1, b"hello"),
    message(2, b"x" * 40_000),
    message(1, b"a", fin=False) + message(9, b"ping") + message(0, b"b"),
    message(1, b"\xff"),
    message(1, b"hello", masked=False),
    message(3),
    message(8, b"\x03\xe8"),
    b"\x81\xff" + b"\x7f" * 8,
]
FIELDS = [b"", b"\0\1a\1b", b"\0\x0econtent-length\x011", b"\x20\x3f\xe1\x1f", b"\xbe\xff"]
WINDOWS = [b"\0\0\0\1", b"\0\xff\xff\xff", b"\x7f\xff\xff\xff", bytes(4)]
SETTINGS = [b"", b"\0\4\0\0\0\1", b"\0\4\0\0\0\0", b"\0\1\0\0\0\0", b"\0\5\0\1\0\0", b"\0\6\0\0\0\1"]


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def application(environ, start_response):
    """Reads or does not, waits or does not, answers in one of several ways."""
    chance = random.Random(environ["REMOTE_PORT"])
    websocket = environ.get("wsgi.websocket")
    if websocket is not None and chance.random() < 0.9:
        for said in websocket:
            websocket.send(said)
        return []
    if chance.random() < 0.3:
        environ["wsgi.input"].read()
    if chance.random() < 0.2:
        syncless.sleep(0.001)
    start_response("200 OK", [("X", "y" * chance.choice([1, 100, 9000]))])
    if chance.random() < 0.3:
        return iter([b"a" * chance.choice([0, 10, 70000])] * 3)
    return [b"x" * chance.choice([0, 5, 20000, 100000])]


def frames(chance):
    """Some that a client might send, and many that none would."""
    newest = 1
    for _ in range(chance.randrange(1, 120)):
        stream = chance.choice([0, newest, max(1, newest - 2), 1, newest + 2])
        kind = chance.choices(range(10), [10, 35, 4, 10, 8, 1, 6, 2, 10, 4])[0]
        if kind == 0:
            body = chance.choice([*MESSAGES, *(chance.randbytes(size) for size in (0, 1, 100, 9000))])
            for start in range(0, max(1, len(body)), 16000):
                yield frame(0, chance.choice([0, 0, 1, 8]), stream, body[start : start + 16000])
        elif kind == 1:
            path = chance.choice(PATHS)
            heads = [GET, POST, POST, GET.replace(b"\x84", b"\x04" + bytes([len(path)]) + path), WEBSOCKET]
            head = chance.choice(heads) + chance.choice([*FIELDS, chance.randbytes(5)])
            yield frame(1, chance.choice([4, 5, 5, 0, 1]), newest, head)
            newest += 2
        elif kind in (2, 9):
            yield frame(kind, chance.choice([0, 4]), stream, chance.randbytes(5))
        elif kind in (3, 5):
            yield frame(kind, 4, stream, bytes(4))
        elif kind == 4:
            yield frame(4, chance.choice([0, 0, 1]), 0, chance.choice(SETTINGS))
        elif kind == 8:
            yield frame(8, 0, stream, chance.choice(WINDOWS))
        elif kind in (6, 7):
            yield frame(kind, chance.choice([0, 1]), 0, bytes(8))
        if chance.random() < 0.05:
            yield frame(*chance.randbytes(2), stream, chance.randbytes(chance.randrange(20)))


def attack(address, chance):
    """One client; how many frames it has sent."""
    sent = 0
    with socket.create_connection(address) as sock, contextlib.suppress(OSError):
        sock.settimeout(0.02)
        sock.sendall(PREFACE)
        for part in frames(chance):
            sock.sendall(part[: chance.randrange(len(part))] if chance.random() < 0.01 else part)
            sent += 1
            if chance.random() < 0.3:
                sock.recv(chance.choice([1, 1000, 100000]))
    return sent


def is_served(address):
    """Whether a client of HTTP/1.1 gets an answer."""
    with socket.create_connection(address, timeout=60) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return sock.recv(100).startswith(b"HTTP/1.1 200 ")


def run(seed, enough, app=application):
    """Rounds of ten clients until `enough(frames sent)`; how many there were."""
    chance = random.Random(seed)
    sent = 0
    limits = {"head_seconds": 1, "body_seconds": 0.5, "write_seconds": 0.5, "ping_seconds": 0.5}
    log = SlowLog(random.Random(seed))
    with Server(app, port=0, http2="cleartext", error_log=log.stream, stop_seconds=5, **limits) as server:
        while not enough(sent):
            clients = [
                syncless.spawn(attack, server.address, random.Random(chance.random())) for _ in range(10)
            ]
            sent += sum(client.result() for client in clients)
            assert is_served(server.address), f"seed {seed}"
    assert not any(server.census().values()), f"seed {seed}: {server.census()}"
    log.close()
    return sent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    reports = []
    syncless.set_error_handler(lambda where, error: reports.append((where, error)))
    for app in (application, asgi_application):
        end = time.monotonic() + given.seconds / 2
        print(f"seed {given.seed}: {run(given.seed, lambda _, end=end: time.monotonic() > end, app)} frames")
        assert not reports, f"seed {given.seed}: {reports}"


if __name__ == "__main__":
    main()
