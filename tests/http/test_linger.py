"""A client sees the answer to an upload that nobody read, however it sends and reads."""

import contextlib
import http.client
import socket as blocking
import time

import pytest

import syncless
from syncless.io import socket
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

SIZE = 12_000_000  # bytes: more than the buffers of a connection hold


def deaf(environ, start_response):
    """Answers without reading the body: /short, /long or /streamed."""
    path = environ["PATH_INFO"]
    start_response("200 OK", [])
    answer = b"unread" * (2_000_000 if path == "/long" else 1)
    return iter([answer]) if path == "/streamed" else [answer]


def upload(size, path="/short", chunked=False):
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (size, bytes(size)) if chunked else bytes(size)
    return f"POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode() + body


@pytest.mark.parametrize("path", ["/short", "/long", "/streamed"])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("limits", [{}, {"body_bytes": 1000}])
def test_client_that_sends_all_before_it_reads_gets_its_answer(start, path, chunked, limits):
    client = start.client(start(deaf, **limits))
    client.send(upload(SIZE, path, chunked))
    status, headers, body = client.response()
    assert status == (413 if limits and not chunked else 200)
    assert status == 413 or body == b"unread" * (len(body) // 6)
    assert path == "/streamed" or chunked or headers["connection"] == "close"
    assert client.at_end() and not client.reset


@pytest.mark.parametrize("library", ["http.client", "requests", "urllib3"])
def test_client_libraries_get_their_answer(start, library):
    """In an OS thread, with the interpreter's own sockets."""
    pytest.importorskip(library, reason=f"{library} is one of the clients: pip install {library}")
    server = start(deaf)

    def post():
        if library == "http.client":
            connection = http.client.HTTPConnection(*server.address, timeout=60)
            connection.request("POST", "/", body=bytes(SIZE))
            answer = connection.getresponse().read()
            connection.close()
            return answer
        if library == "requests":
            import requests

            with requests.Session() as session:
                return session.post(server.url, data=bytes(SIZE), timeout=30).content
        import urllib3

        with urllib3.PoolManager() as pool:
            return pool.request("POST", server.url, body=bytes(SIZE), timeout=30, retries=False).data

    for _ in range(5):
        assert syncless.run_in_thread(post) == b"unread"


def test_our_half_is_closed_before_the_rest_is_read(start):
    """So the client knows the end of the answer while it is still sending."""
    client = start.client(start(deaf))
    client.send(upload(SIZE)[: SIZE // 2])
    assert client.response()[0] == 200 and client.at_end()
    client.send(bytes(SIZE // 2))
    syncless.sleep(0)
    client.send(b"x")


def linger(start, server):
    """A client whose answer has come and whose connection the server still has."""
    client = start.client(server)
    client.send(upload(SIZE)[:200_000])
    assert client.response()[0] == 200
    return client


def test_silent_client_is_closed_before_its_time_is_over(start):
    server = start(deaf, linger_seconds=1000, linger_idle_seconds=0.05)
    linger(start, server)
    assert eventually(lambda: server.census()["connections"] == 0)


def test_silent_client_is_disconnected_however_much_it_has_sent(start):
    server = start(deaf, linger_seconds=1000, linger_idle_seconds=1, body_rate=0)
    client = linger(start, server)
    for _ in range(30):
        client.send(b"x")
        syncless.sleep(0.1)
    assert server.census()["connections"] == 1
    began = time.monotonic()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert time.monotonic() - began < 3


def test_client_that_never_stops_sending_is_disconnected_in_time(start):
    server = start(deaf, linger_seconds=10, linger_idle_seconds=1, body_rate=0)
    client = linger(start, server)
    began = time.monotonic()
    while server.census()["connections"] and time.monotonic() < began + 20:
        with contextlib.suppress(OSError):
            client.send(b"x")
        syncless.sleep(0.1)
    assert 8 < time.monotonic() - began < 12


@pytest.mark.parametrize(("rate", "stays"), [(100_000, False), (10, True)])
def test_slow_client_is_closed_and_quick_one_stays(start, rate, stays):
    """It has sent 200 kB and goes on with a byte at a time: the mean counts."""
    server = start(deaf, linger_seconds=1000, linger_idle_seconds=0.3, body_rate=rate)
    client = linger(start, server)
    began = time.monotonic()
    try:
        while time.monotonic() < began + 4 and server.census()["connections"]:
            client.send(b"x")
            syncless.sleep(0.01)
    except OSError:
        pass
    assert bool(server.census()["connections"]) is stays


@pytest.mark.parametrize(
    "limits", [{"linger_seconds": 0.2, "linger_idle_seconds": 0.05}, {"linger_bytes": 1_000_000}]
)
def test_time_and_bytes_are_bounded(start, limits):
    server = start(deaf, **limits)
    client = linger(start, server)

    def flood():
        try:
            while True:
                client.send(bytes(10_000))
                syncless.sleep(0)
        except OSError:
            pass

    flooding = syncless.spawn(flood)
    assert eventually(lambda: server.census()["connections"] == 0)
    flooding.join()


def test_as_many_bytes_as_the_limit_are_read_away_and_no_more(start):
    server = start(deaf, linger_bytes=100_000, linger_seconds=1000, body_rate=0)
    client = start.client(server)
    client.send(upload(SIZE)[:-SIZE])
    assert client.response()[0] == 200
    for data, left in ((bytes(60_000), 1), (bytes(40_000), 1), (b"x", 0)):
        client.send(data)
        syncless.sleep(0.01)
        assert server.census()["connections"] == left


def test_number_of_lingering_connections_is_bounded(start):
    server = start(deaf, linger_connections=3)
    clients = [linger(start, server) for _ in range(5)]
    assert eventually(lambda: server.census()["connections"] == 3)
    for client in clients[2:]:
        client.send(b"x")
    assert server.census()["connections"] == 3


def test_lingering_connections_make_room_first(start):
    server = start(deaf, connections=3)
    idle = start.client(server)
    assert idle.get()[0] == 200
    lingering = [linger(start, server) for _ in range(2)]
    assert start.client(server).get()[0] == 200
    assert server.census()["connections"] == 3
    assert idle.get()[0] == 200, "an idle connection is of more use than one that has had its last answer"
    with pytest.raises(OSError):
        for _ in range(1000):
            lingering[0].send(b"x")
            syncless.sleep(0.001)


def test_stop_waits_for_silence_only(start):
    server = start(deaf, linger_idle_seconds=0.05, stop_seconds=100)
    client = linger(start, server)
    stopping = syncless.spawn(server.stop)
    while not stopping.done():
        try:
            client.send(b"x")
        except OSError:
            break
        syncless.sleep(0.005)
    assert stopping.join(10)


def test_answer_through_tls_survives(start):
    trustme = pytest.importorskip("trustme", reason="trustme makes the certificate: pip install trustme")
    import ssl

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = start(deaf, ssl_context=context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    def post():
        plain = blocking.create_connection(server.address, timeout=60)
        with trusting.wrap_socket(plain, server_hostname="localhost") as sock:
            sock.sendall(upload(SIZE))
            return sock.makefile("rb").read()

    assert syncless.run_in_thread(post).endswith(b"unread")


def test_unix_socket(start, tmp_path):
    server = start(deaf, bind=f"unix:{tmp_path}/socket")
    client = start.client(server)
    assert client.sock.family == socket.AF_UNIX
    client.send(upload(SIZE))
    assert client.response()[2] == b"unread"


def test_connection_whose_answer_was_sent_at_once_lingers_once(start, tmp_path):
    """A file is sent at once. The unread body is broken, so the connection closes, and still stands in the
    list of connections to flush at the end of the turn."""

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        return environ["wsgi.file_wrapper"](path.open("rb"))

    path = tmp_path / "file"
    path.write_bytes(b"sent")
    server = start(app, linger_connections=1, linger_seconds=0.2)
    for _ in range(3):
        client = start.client(server)
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
        assert client.response()[2] == b"sent"
        assert client.at_end() and not client.reset
        client.close()
        assert eventually(lambda: server.census()["connections"] == 0)
        assert server.census()["lingering"] == 0
