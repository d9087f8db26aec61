"""Ready tasklets starve neither by the events of a poll nor by a client that is always ready."""

import os
import socket as plain
import threading
import time

import pytest

from syncless import Event, sleep, spawn, wait_readable
from syncless.io import socket
from tests.http.test_websocket import HANDSHAKE

CLIENTS = 100


pytestmark = pytest.mark.virtual_time


def test_ready_tasklets_get_as_many_turns_as_a_poll_brought_events(start):
    """Without that they get the time of one slice, a fifth of a millisecond."""
    left, right = os.pipe()
    happened = []

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/busy":
            time.sleep(0.001)  # stands for work: no other tasklet runs
            happened.append("request")
            if happened.count("request") == CLIENTS:
                os.write(right, b"x")
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def turns():
        while "poll" not in happened:
            if happened:
                time.sleep(0.00005)
            happened.append("turn")
            sleep(0)

    def hear():
        wait_readable(left)
        happened.append("poll")

    server = start(app)
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CLIENTS)]
    try:
        for client in clients:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        hearing = spawn(hear)
        sleep(0)
        for client in clients:
            client.sendall(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
        turning = spawn(turns)
        hearing.join()
        turning.join()
    finally:
        for client in clients:
            client.close()
        os.close(left)
        os.close(right)
    last = len(happened) - 1 - happened[::-1].index("request")
    assert happened[last:].count("turn") > CLIENTS // 2, happened


PIECE = b"x" * 8192
PIECES = 500
POST = (
    f"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len(PIECE) * PIECES}\r\n\r\n".encode() + PIECE * PIECES
)
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = f"{HANDSHAKE}\r\n".encode()


def reads(environ, start_response, done):
    while environ["wsgi.input"].read(len(PIECE)):
        done()
    start_response("200 OK", [("Content-Length", "0")])


def streams(environ, start_response, done):
    write = start_response("200 OK", [("Content-Length", str(len(PIECE) * 150))])
    for _ in range(150):  # fit into the buffers of the kernel
        write(PIECE)
        done()


def sends_messages(environ, start_response, done):
    for _ in range(150):
        environ["wsgi.websocket"].send(PIECE)
        done()


class Turns:
    """How often done() was called before each turn of another tasklet."""

    def __init__(self):
        self.calls = [0]
        self.begun = False
        self.over = Event()

    def done(self):
        if not self.begun:
            self.begun = True
            spawn(self.take)
        self.calls[-1] += 1

    def take(self):
        while not self.over.is_set():
            self.calls.append(0)
            sleep(0)

    def measure(self, server, sent):
        """Serve a client that is faster: in another thread, where a call sends all."""
        with plain.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(plain.SOL_SOCKET, plain.SO_RCVBUF, 1 << 22)
            sending = threading.Thread(target=client.sendall, args=(sent,))
            sending.start()
            self.over.wait()
            sending.join()
        assert sum(self.calls) > 64 >= max(self.calls)


@pytest.mark.virtual_time(False)
@pytest.mark.parametrize(
    ("app", "sent"),
    [
        (reads, POST),
        (streams, GET),
        (sends_messages, UPGRADE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_client_that_never_lets_its_request_wait_does_not_starve_others(start, app, sent):
    turns = Turns()

    def wsgi(environ, start_response):
        app(environ, start_response, turns.done)
        turns.over.set()
        return []

    turns.measure(start(wsgi), sent)
