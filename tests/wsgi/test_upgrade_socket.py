"""environ["werkzeug.socket"]: the connection as a socket, for libraries that bring their own WebSockets."""

import gc
import io
import socket as blocking
import time
import weakref

import pytest

import syncless
from syncless.wsgi import Server
from tests.authority import Authority, in_thread
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

ASK = b"GET /%b HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"


def echo(environ, start_response):
    """Sends back what comes, up to a full stop."""
    sock = environ["werkzeug.socket"]
    sock.sendall(SWITCH)
    while data := sock.recv(4):
        assert len(data) <= 4
        sock.send(data)
        if b"." in data:
            break
    start_response("200 OK", [])  # frameworks answer all the same
    return [b"ignored"]


def test_ordinary_request_has_no_socket(start):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [str("werkzeug.socket" in environ).encode()]

    server = start(app)
    client = start.client(server)
    assert client.get()[2] == b"False"
    client.send(ASK % b"")
    assert client.response()[2] == b"True"
    assert client.get()[2] == b"False"  # it has not been taken: the connection is kept


@pytest.mark.parametrize("together", [True, False])
def test_bytes_behind_the_request_are_received(start, together):
    client = start.client(start(echo))
    if together:
        client.send(ASK % b"" + b"hello world.")
    else:
        client.send(ASK % b"")
        assert client.response(head_only=True)[0] == 101
        client.send(b"hello")
        assert client._exactly(5) == b"hello"
        client.send(b" world.")
        client.buffer = SWITCH + b"hello" + client.buffer
    assert client.response(head_only=True)[0] == 101
    assert client._exactly(12) == b"hello world." and client.at_end()


def test_tls(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.files("localhost")

    def talk():
        raw = blocking.create_connection(server.address, timeout=60)
        with authority.context.wrap_socket(raw, server_hostname="localhost") as sock:
            sock.sendall(ASK % b"" + b"x" * 9999 + b".")
            answer = b""
            while data := sock.recv(10000):
                answer += data
        return answer

    with Server(echo, port=0, certfile=certificate, keyfile=key) as server:
        assert in_thread(talk) == SWITCH + b"x" * 9999 + b"."


def test_timeout_and_no_other(start):
    heard = []

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        sock.sendall(SWITCH)
        heard.append(sock.recv(10))
        sock.settimeout(5)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            sock.recv(10)
        heard.append(round(time.monotonic() - began))
        return []

    client = start.client(start(app), timeout=10000)
    client.send(ASK % b"")
    assert client.response(head_only=True)[0] == 101
    syncless.sleep(300)  # of silence
    client.send(b"late")
    assert client.at_end() and heard == [b"late", 5]


@pytest.mark.parametrize("how", ["returns", "closes"])
def test_tasklet_that_receives_goes_on_at_the_end(start, how):
    outcome = []

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        sock.sendall(SWITCH)
        receiver = syncless.spawn(lambda: outcome.append(sock.recv(10)))
        syncless.sleep(0.02)
        if how == "closes":
            sock.close()
            receiver.join()
            with pytest.raises(OSError, match="closed"):
                sock.send(b"more")
        return []

    client = start.client(start(app))
    client.send(ASK % b"")
    assert client.response(head_only=True)[0] == 101 and client.at_end()
    syncless.sleep(0.02)
    assert outcome == [b""]


def test_kept_socket_reaches_no_other_connection(start):
    kept = []

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/taken":
            kept.append(environ["werkzeug.socket"])
            kept[-1].sendall(SWITCH)
            return []
        if environ["PATH_INFO"] == "/offered":
            kept.append(environ["werkzeug.socket"])
            start_response("200 OK", [])
            return [b"offered"]
        for sock in kept:
            with pytest.raises(OSError, match="closed"):
                sock.sendall(b"intruder")
        start_response("200 OK", [])
        return [b"plain"]

    server = start(app)
    client = start.client(server)
    client.send(ASK % b"offered")
    assert client.response()[2] == b"offered"
    other = start.client(server)
    other.send(ASK % b"taken")
    assert other.response(head_only=True)[0] == 101 and other.at_end()
    assert client.get()[2] == b"plain" and client.get()[2] == b"plain"


def test_client_that_sends_on_is_not_reset(start):
    """The library has said goodbye and its view has returned."""

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(SWITCH + b"goodbye")
        return []

    server = start(app)
    client = start.client(server)
    client.send(ASK % b"")
    assert client.response(head_only=True)[0] == 101 and client._exactly(7) == b"goodbye"
    for _ in range(3):
        syncless.sleep(1)
        client.send(b"on its way already")
    assert server.census()["connections"] == 1
    assert client.at_end() and not client.reset
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)


def test_exceptions_that_mean_no_response_are_not_logged(start):
    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(SWITCH)
        raise {"/a": ConnectionError, "/b": StopIteration, "/c": KeyError}[environ["PATH_INFO"]]

    errors = io.StringIO()
    server = start(app, error_log=errors)
    for path, logged in ((b"a", False), (b"b", False), (b"c", True)):
        client = start.client(server)
        client.send(ASK % path)
        assert client.response(head_only=True)[0] == 101 and client.at_end()
        assert ("KeyError" in errors.getvalue()) == logged


def test_nothing_is_left_for_the_collector(start):
    seen = []

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        seen.append(weakref.ref(sock))
        sock.sendall(SWITCH)
        return []

    server = start(app)
    gc.collect()
    gc.disable()
    try:
        client = start.client(server)
        client.send(ASK % b"")
        assert client.response(head_only=True)[0] == 101 and client.at_end()
        syncless.sleep(0.02)
        assert seen[0]() is None
    finally:
        gc.enable()


def test_attributes_of_the_descriptor(start):
    seen = []

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        seen.append((sock.getpeername()[1], int(environ["REMOTE_PORT"]), sock.family, sock.fileno() > 0))
        sock.setsockopt(blocking.SOL_SOCKET, blocking.SO_KEEPALIVE, 1)
        with pytest.raises(AttributeError, match="has no makefile; there are recv"):
            sock.makefile()
        start_response("200 OK", [])
        return [b""]

    client = start.client(start(app))
    client.send(ASK % b"")
    assert client.response()[0] == 200
    assert seen[0][0] == seen[0][1] and seen[0][2:] == (blocking.AF_INET, True)
