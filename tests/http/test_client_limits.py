"""Limits of a single client: how many connections it has, and how fast it takes its answer."""

import socket as blocking

import pytest

import syncless
from syncless.io import socket
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def hello(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


def answered(start, server, sent=b""):
    """A client that has got its answer and keeps its connection; None if it was closed without one."""
    client = start.client(server)
    client.send(sent + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return client if client.response() else None


def test_connections_of_one_client_address_are_limited(start):
    server = start(hello, client_connections=3)
    clients = [answered(start, server) for _ in range(3)]
    assert all(clients) and answered(start, server) is None
    assert all(client.get()[2] == b"hello" for client in clients)
    clients[0].close()
    assert eventually(lambda: server.census()["connections"] == 2)
    assert answered(start, server) is not None


def test_connections_of_trusted_proxies_and_unix_sockets_are_not_counted(start, tmp_path):
    for options in ({"trusted": "127.0.0.1"}, {"bind": f"unix:{tmp_path}/socket"}):
        server = start(hello, client_connections=1, **options)
        assert all(answered(start, server) for _ in range(3)) and server.census()["clients"] == 0


def test_announced_client_is_counted_and_its_proxy_is_not(start):
    server = start(hello, client_connections=2, trusted="127.0.0.1", proxy_protocol=True)

    def of(address, family="TCP4", to="127.0.0.1"):
        return answered(start, server, f"PROXY {family} {address} {to} 1234 80\r\n".encode())

    first = of("192.0.2.1")
    assert first and of("192.0.2.1") and of("192.0.2.1") is None and of("192.0.2.2")
    assert all(of("127.0.0.1") for _ in range(3))  # trusted itself
    assert (
        of("2001:db8::1", "TCP6", "::1")
        and of("2001:db8::2", "TCP6", "::1")
        and of("2001:db8::3", "TCP6", "::1") is None
    )
    assert of("2001:db8:0:1::1", "TCP6", "::1")
    first.close()
    assert eventually(lambda: of("192.0.2.1") is not None)
    silent = start.client(server)
    silent.send(b"PROXY TCP4 192.0.2.9")  # closed before its client is known
    silent.close()
    assert server.census()["clients"] == 4


class Reader:
    """A client with a small buffer that reads a few bytes at a time, and pauses in between."""

    def __init__(self, server):
        self.sock = socket.socket()
        self.sock.setsockopt(blocking.SOL_SOCKET, blocking.SO_RCVBUF, 4096)
        self.sock.connect(server.address)
        self.sock.settimeout(20)
        self.received = 0

    def read(self, pause, most=1 << 30):
        """Whether the answer came to a clean end."""
        self.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        try:
            while self.received < most:
                block = self.sock.recv(4096)
                if not block:
                    return True
                self.received += len(block)
                syncless.sleep(pause)
        except ConnectionResetError:
            return False
        finally:
            self.sock.close()
        return True


SIZE = 12_000_000


def whole(environ, start_response):
    start_response("200 OK", [])
    return [b"x" * SIZE]


def in_parts(environ, start_response):
    start_response("200 OK", [])
    return (b"x" * 100_000 for _ in range(SIZE // 100_000))


@pytest.mark.parametrize("app", [whole, in_parts])
@pytest.mark.parametrize("grace", [0.2, 2])
def test_client_that_reads_too_slowly_is_disconnected(start, app, grace):
    """It takes some bytes all the time, so it is never silent for write_seconds. The longer grace is the sum
    of several waits."""
    server = start(app, write_rate=50_000_000, write_grace_seconds=grace)
    reader = Reader(server)
    assert not reader.read(0.005) and reader.received < SIZE
    assert eventually(lambda: server.census()["connections"] == 0)


@pytest.mark.parametrize("app", [whole, in_parts])
def test_client_that_reads_nothing_is_disconnected_by_the_rate(start, app):
    server = start(app, write_rate=1000, write_grace_seconds=0.2)
    reader = Reader(server)
    reader.sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.census()["connections"] == 1)
    assert eventually(lambda: server.census()["connections"] == 0)
    reader.sock.close()


@pytest.mark.parametrize("app", [whole, in_parts])
@pytest.mark.parametrize(
    "options", [{"write_rate": 0}, {"write_rate": 1}, {"write_rate": 50_000_000, "write_grace_seconds": 60}]
)
def test_slow_client_goes_on_if_it_may(start, app, options):
    """Although the kernel tells of room for more only when much has been read, far later than after the
    grace."""
    server = start(app, write_seconds=1, **{"write_grace_seconds": 0.1, **options})
    reader = Reader(server)
    assert reader.read(0.01, 600_000) and reader.received >= 600_000


def test_client_that_keeps_up_is_not_measured(start):
    server = start(whole, write_rate=1 << 60, write_grace_seconds=0)
    client = answered(start, start(hello, write_rate=1 << 60, write_grace_seconds=0))
    assert client.get()[2] == b"hello" and server.census()["slow"] == 0
