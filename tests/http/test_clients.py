"""Clients that are slow, silent, rude or gone; and what the server does when it runs out of something."""

import io
import os
import resource
import socket as blocking
import struct
import time

import pytest

import syncless
from syncless.io import socket
from tests.programs import run_unchecked
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

HELLO = b"Hello, World!"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def hello(environ, start_response):
    start_response("200 OK", [])
    return [HELLO]


def big(environ, start_response):
    start_response("200 OK", [])
    if environ["PATH_INFO"] == "/stream":
        return (bytes(100_000) for _ in range(100))
    return [bytes(10_000_000)]


def test_an_idle_connection_is_closed_silently(start):
    client = start.client(start(hello, idle_seconds=0.05))
    assert client.get()[2] == HELLO
    started = time.monotonic()
    assert client.at_end() and time.monotonic() - started == pytest.approx(0.05, abs=1e-6)


def test_silent_connection_is_closed_without_a_word(start):
    client = start.client(start(hello, head_seconds=0.05, defer_accept=False))
    assert client.at_end() and not client.reset


def test_dripping_head_ends_at_the_total_deadline(start):
    client = start.client(start(hello, head_seconds=0.1))
    started = time.monotonic()
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")

    def drip():
        try:
            while True:
                client.send(b"X: y\r\n")
                syncless.sleep(0.01)
        except OSError:
            pass

    dripping = syncless.spawn(drip)
    assert client.response()[0] == 408
    assert time.monotonic() - started == pytest.approx(0.1, abs=1e-6)
    dripping.kill()


def test_a_second_head_has_a_deadline_of_its_own(start):
    client = start.client(start(hello, head_seconds=0.5, idle_seconds=10))
    assert client.get()[2] == HELLO
    client.send(b"GET /")
    assert client.response()[0] == 408


@pytest.mark.parametrize("path", [b"/", b"/stream"])
def test_client_that_does_not_read_is_disconnected(start, path):
    server = start(big, write_seconds=0.05)
    client = start.client(server)
    client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path)
    assert eventually(lambda: server.census()["connections"] == 0 and server.requests == 1)


@pytest.mark.parametrize("path", [b"/", b"/stream"])
def test_a_slow_reader_gets_all_of_it(start, path):
    client = start.client(start(big))
    client.send(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path + GET)
    total = 0
    while total < 2_000_000:
        total += len(client.sock.recv(65536))
        syncless.sleep(0.001)
    client.buffer = b""
    client.close()


def test_pipelined_large_responses_do_not_pile_up(start):
    server = start(big)
    client = start.client(server)
    client.send(GET * 10)
    syncless.sleep(0.05)
    assert server.requests <= 2, "the next is begun when the client has taken the last"
    for _ in range(10):
        assert len(client.response()[2]) == 10_000_000


@pytest.mark.parametrize("at", range(0, len(GET) + 1, 3))
@pytest.mark.parametrize("reset", [False, True])
def test_the_client_vanishes_while_sending_its_head(start, at, reset):
    server = start(hello, defer_accept=False)
    client = start.client(server)
    client.send(GET[:at])
    syncless.sleep(0)
    if reset:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert start.client(server).get()[2] == HELLO


def test_the_client_vanishes_while_the_application_sleeps(start):
    def app(environ, start_response):
        syncless.sleep(0.03)
        return hello(environ, start_response)

    server = start(app)
    for reset in (False, True):
        client = start.client(server)
        client.send(GET)
        syncless.sleep(0.01)
        if reset:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert eventually(lambda: server.census()["connections"] == 0)


def test_half_closed_client_gets_its_answer(start):
    client = start.client(start(hello))
    client.send(GET * 3)
    client.sock.shutdown(socket.SHUT_WR)
    assert [client.response()[2] for _ in range(3)] == [HELLO] * 3
    assert client.at_end()


def test_an_answer_survives_what_the_client_still_sends(start):
    """Closing with unread bytes would reset the connection and could destroy the answer (RFC 9112, 9.6)."""
    client = start.client(start(hello))
    client.send(b"BAD\r\n\r\n" + b"x" * 300_000)
    assert client.response()[0] == 400
    assert client.at_end()


def test_a_refused_client_cannot_stay_for_ever(start):
    server = start(hello, linger_seconds=0.05)
    client = start.client(server)
    client.send(b"BAD\r\n\r\n")

    def flood():
        try:
            while True:
                client.send(b"x" * 10)
                syncless.sleep(0.005)
        except OSError:
            pass

    flooding = syncless.spawn(flood)
    assert eventually(lambda: server.census()["connections"] == 0)
    flooding.kill()


def test_connections_can_be_limited(start):
    server = start(hello, connections=2, idle_seconds=10)
    first, second = start.client(server), start.client(server)
    assert first.get()[2] == second.get()[2] == HELLO
    third = start.client(server)
    third.send(GET)
    syncless.sleep(0.02)
    assert server.census()["connections"] == 2
    first.close()
    assert third.response()[2] == HELLO


def test_silent_connections_make_room_for_one_that_comes_with_them(start):
    """Also where none of them has been read from when it comes."""
    server = start(hello, connections=2, defer_accept=False, head_seconds=60)
    silent = [blocking.create_connection(server.address) for _ in range(2)]
    with socket.socket(fileno=blocking.create_connection(server.address).detach()) as client:
        client.sendall(GET)
        with syncless.Timeout(30):
            assert client.recv(1000).endswith(HELLO)
    for each in silent:
        each.close()


def test_many_idle_and_half_sent_connections(start):
    server = start(hello, defer_accept=False)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(2000, (soft - 200) // 2)
    clients = []
    for i in range(number):
        client = start.client(server)
        if i % 2:
            client.send(b"GET / HTTP/1.1\r\nHo")
        clients.append(client)
    assert eventually(lambda: server.census()["connections"] == number)
    assert server.census()["active"] == 0 and syncless.current_loop().census()["tasklets"] <= 3
    with syncless.Timeout(5):
        assert start.client(server).get()[2] == HELLO


def test_running_out_of_descriptors():
    """EMFILE while accepting: said once, idle connections make room, and the server goes on."""
    program = """
import io, os, resource, sys, syncless
from syncless.io import socket
from syncless.wsgi import Server
def hello(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]
log = io.StringIO()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
server = Server(hello, port=0, error_log=log, defer_accept=False).start()
clients, spare = [], os.dup(0)
def ask(client):
    client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
    return client.recv(1000)
try:
    for _ in range(100):
        client = socket.create_connection(server.address, timeout=60)
        clients.append(client)
        ask(client)
except OSError:
    pass
print(len(clients) > 20)
if not log.getvalue():  # the last descriptor is one of the server's: nobody has waited for one yet
    os.close(spare)
    clients.append(socket.create_connection(server.address, timeout=60))
    ask(clients[-1])
last = clients.pop()
last.close()
for client in clients[:10]:
    client.close()
syncless.sleep(0.2)
fresh = socket.create_connection(server.address, timeout=60)
print(ask(fresh).endswith(b"hello"))
print(log.getvalue().count("cannot accept"), "Too many open files" in log.getvalue())
"""
    done = run_unchecked(program)
    assert done.stdout == "True\nTrue\n1 True\n", done.stderr


def test_log_on_a_full_disk_disturbs_no_request(start, capfd):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    server = start(hello, access_log="/dev/full")
    client = start.client(server)
    for _ in range(600):
        assert client.get()[2] == HELLO
    server.stop()
    assert capfd.readouterr().err.count("cannot write the access log") == 1


def test_error_log_on_a_full_disk_disturbs_no_request(start):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    def app(environ, start_response):
        raise RuntimeError("boom")

    server = start(app, error_log=Full())
    assert start.client(server).get()[0] == 500
    assert start.client(server).get()[0] == 500


def test_an_application_that_kills_its_own_tasklet_or_times_out(start):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/kill":
            syncless.current().kill()
        with syncless.Timeout(0.005):
            syncless.sleep(5)

    log = io.StringIO()
    server = start(app, error_log=log)
    assert start.client(server).get("/kill")[0] == 503
    assert start.client(server).get("/timeout")[0] == 500
    assert "Timeout" in log.getvalue()


def test_recursion_and_memory_errors_are_answered(start):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/memory":
            raise MemoryError
        return app(environ, start_response)

    server = start(app, error_log=io.StringIO())
    assert start.client(server).get("/recursion")[0] == 500
    assert start.client(server).get("/memory")[0] == 500


def test_a_request_that_comes_while_the_last_response_is_still_being_sent(start):
    """Its event has been delivered by the time it can be read; it must not be forgotten."""
    client = start.client(start(big))
    client.send(GET)
    syncless.sleep(0.02)
    client.send(GET)  # the first response has filled the socket's buffers and waits
    syncless.sleep(0.02)
    for _ in range(2):
        with syncless.Timeout(10):
            assert len(client.response()[2]) == 10_000_000
    client.send(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
    syncless.sleep(0.02)
    client.send(GET)
    assert len(client.response()[2]) == len(client.response()[2]) == 10_000_000


def test_pipelining_client_that_does_not_read_is_disconnected_at_close(start):
    server = start(big, write_seconds=0.05)
    client = start.client(server)
    client.send(GET + b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert eventually(lambda: server.census()["connections"] == 0 and server.requests >= 1)


def test_killing_a_request_that_drains_its_body(start):
    server = start(hello, stop_seconds=0.05)
    client = start.client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
    assert client.response()[2] == HELLO
    server.stop()
    assert client.at_end()
