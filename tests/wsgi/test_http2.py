"""HTTP/2: a connection carries requests, each of which is as one of HTTP/1.1 to its application."""

import contextlib
import importlib.util
import socket as blocking

import pytest

import syncless
from syncless import run_in_thread
from syncless.http.errors import ClientGone
from syncless.io import socket
from tests.waiting import eventually

pytestmark = [
    pytest.mark.virtual_time,
    pytest.mark.skipif(
        importlib.util.find_spec("syncless.http2.session") is None, reason="built without libnghttp2"
    ),
]
h2_connection = pytest.importorskip("h2.connection", reason="the client is the library h2: pip install h2")
from h2 import config, events, exceptions  # noqa: E402  # after the skip


class Client:
    """A connection of HTTP/2: what it asks for, and the events that come."""

    @classmethod
    def over(cls, sock, **settings):
        client = cls.__new__(cls)
        client.begin(sock, settings)
        return client

    def __init__(self, server, **settings):
        self.begin(socket.create_connection(server.address, timeout=60), settings)

    def begin(self, sock, settings):
        self.sock = sock
        self.h2 = h2_connection.H2Connection(
            config.H2Configuration(
                client_side=True,
                header_encoding="latin-1",
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.h2.initiate_connection()
        if settings:
            self.h2.update_settings(settings)
        self.events = []
        self.ended = False
        self.opens_windows = True
        self.flush()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.sock.sendall(data)

    def ask(self, path="/", method="GET", *fields, body=None, ends=True, authority="a"):
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path), *fields]
        self.h2.send_headers(stream, head, end_stream=body is None and ends)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=ends)
        self.flush()
        return stream

    def read(self):
        """Whether something has come."""
        try:
            data = self.sock.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.ended = True
            return False
        try:
            found = self.h2.receive_data(data)
        except exceptions.ProtocolError:
            self.ended = True
            return False
        for event in found:
            self.events.append(event)
            if isinstance(event, events.DataReceived) and self.opens_windows:
                with contextlib.suppress(exceptions.ProtocolError):  # the stream has ended
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return True

    def wait_for(self, kind, stream=None):
        while True:
            for event in self.events:
                if isinstance(event, kind) and (stream is None or event.stream_id == stream):
                    return event
            assert self.read(), f"the connection ended before {kind.__name__}: {self.events}"

    def answer(self, stream):
        """(status, headers, body); the body is None if the stream was reset."""
        while not any(
            isinstance(event, (events.StreamEnded, events.StreamReset)) and event.stream_id == stream
            for event in self.events
        ):
            assert self.read(), f"the connection ended: {self.events}"
        mine = [event for event in self.events if getattr(event, "stream_id", None) == stream]
        reset = any(isinstance(event, events.StreamReset) and event.error_code for event in mine)
        heads = [dict(event.headers) for event in mine if isinstance(event, events.ResponseReceived)]
        body = b"".join(event.data for event in mine if isinstance(event, events.DataReceived))
        head = heads[0] if heads else {}
        return int(head.pop(":status", 0)), head, None if reset else body

    def get(self, *args, **options):
        return self.answer(self.ask(*args, **options))

    def close(self):
        self.sock.close()


@pytest.fixture
def connect(start):
    """connect(app, **options) -> (server, function that makes a Client)."""
    clients = []

    def begin(app, **options):
        server = start(app, http2="cleartext", **options)

        def client(**settings):
            clients.append(Client(server, **settings))
            return clients[-1]

        return server, client

    yield begin
    for client in clients:
        client.close()


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Protocol", environ["SERVER_PROTOCOL"])])
    return [b"hello"]


def echo(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [body]


def test_request_is_answered(connect):
    _, client = connect(hello)
    status, headers, body = client().get()
    assert (status, body) == (200, b"hello")
    assert headers["x-protocol"] == "HTTP/2.0" and headers["content-length"] == "5"
    assert headers["server"] == "syncless" and "connection" not in headers


def test_client_of_http_1_is_answered_by_the_same_port(connect, start):
    server, _ = connect(hello)
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, headers, body = client.response()
    assert (status, headers["x-protocol"], body) == (200, "HTTP/1.1", b"hello")


@pytest.mark.parametrize("size", [0, 1, 65535, 300_000])
@pytest.mark.parametrize("declared", [True, False])
def test_body_of_any_size_is_read(connect, size, declared):
    _, client = connect(echo)
    client = client()
    fields = [("content-length", str(size))] if declared else []
    stream = client.ask("/", "POST", *fields, ends=False)
    sent = bytes(range(256)) * (size // 256) + bytes(size % 256)
    left = sent
    while left:
        part = min(len(left), client.h2.local_flow_control_window(stream), 16384)
        if part:
            client.h2.send_data(stream, left[:part])
            left = left[part:]
            client.flush()
        else:
            client.read()
    client.h2.end_stream(stream)
    client.flush()
    assert client.answer(stream) == (200, client.answer(stream)[1], sent)


def test_blocking_requests_of_one_connection_wait_at_once(connect):
    gate = syncless.Event()
    inside = []

    def app(environ, start_response):
        inside.append(environ["PATH_INFO"])
        if len(inside) == 50:
            gate.set()
        gate.wait()
        return hello(environ, start_response)

    _, client = connect(app)
    client = client()
    streams = [client.ask(f"/{i}") for i in range(50)]
    assert [client.answer(stream)[2] for stream in streams] == [b"hello"] * 50


@pytest.mark.parametrize(
    "fields",
    [
        [("host", "b")],
        [("content-length", "1"), ("content-length", "2")],
        [("connection", "close")],
        [("transfer-encoding", "chunked")],
        [("te", "gzip")],
        [("X-Upper", "a")],
        [("x-a", "a\r\nx-b: c")],
    ],
)
def test_field_that_would_smuggle_reaches_no_application(connect, fields):
    asked = []

    def app(environ, start_response):
        asked.append(environ)
        return hello(environ, start_response)

    _, client = connect(app)
    bad, good = client(), client()
    stream = bad.ask("/", "GET", *fields)
    status, _, body = bad.answer(stream)
    assert (status == 400 or body is None) and not asked
    assert good.get()[2] == b"hello"


@pytest.mark.parametrize("path", ["/a b", "/a\tb", "relative", "http://b/", ""])
def test_path_that_is_no_target_reaches_no_application(connect, path):
    asked = []

    def app(environ, start_response):
        asked.append(environ)
        return hello(environ, start_response)

    _, client = connect(app)
    status, _, body = client().get(path)
    assert (status == 400 or body is None) and not asked


def test_cookies_in_several_fields_are_one(connect):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [environ["HTTP_COOKIE"].encode()]

    _, client = connect(app)
    assert client().get("/", "GET", ("cookie", "a=b"), ("x", "y"), ("cookie", "c=d"))[2] == b"a=b; c=d"


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "304 x")]
)
def test_answer_without_a_body_ends_with_its_head(connect, method, status):
    def app(environ, start_response):
        start_response(status, [])
        return [b"hello"] if method == "HEAD" else []

    _, client = connect(app)
    client = client()
    stream = client.ask("/", method)
    assert client.answer(stream)[2] == b""
    assert not any(isinstance(event, events.DataReceived) for event in client.events)


def test_head_that_is_too_large_is_refused(connect):
    _, client = connect(hello, head_bytes=2000)
    client = client()
    assert client.get("/", "GET", ("x", "y" * 3000))[0] == 431
    assert client.get()[2] == b"hello"


def test_application_that_fails_answers_500_or_resets_its_stream_only(connect):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/late":
            start_response("200 OK", [])(b"part")
        raise ValueError("meant by the test")

    _, client = connect(app, error_log="/dev/null")
    client = client()
    assert client.get()[0] == 500
    assert client.get("/late")[2] is None
    assert client.get()[0] == 500


def test_large_answer_waits_for_the_window(connect):
    parts = []

    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(100 if environ["PATH_INFO"] == "/" else 0):
            parts.append(len(parts))
            yield bytes(10_000)

    _, client = connect(app)
    client = client()
    client.opens_windows = False
    stream = client.ask()
    client.wait_for(events.DataReceived)
    assert client.get("/other")[0] == 200
    assert len(parts) < 50
    client.h2.increment_flow_control_window(2_000_000)
    client.h2.increment_flow_control_window(2_000_000, stream)
    client.flush()
    assert len(client.answer(stream)[2]) == 1_000_000


def test_client_that_takes_nothing_is_reset(connect):
    ended = syncless.Event()

    def app(environ, start_response):
        try:
            start_response("200 OK", [])
            for _ in range(100):
                yield bytes(10_000)
        finally:
            ended.set()

    _, client = connect(app, write_seconds=0.2)
    client = client()
    client.opens_windows = False
    stream = client.ask()
    ended.wait()
    assert client.answer(stream)[2] is None


def test_reset_stream_ends_the_wait_of_its_application(connect):
    failures = []

    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except ClientGone as error:
            failures.append(error)
            raise
        return hello(environ, start_response)

    server, client = connect(app)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    assert eventually(lambda: server.census()["active"] == 1)
    client.h2.reset_stream(stream)
    client.flush()
    assert eventually(lambda: failures and server.census()["active"] == 0)
    assert client.get("/", "POST", body=b"")[2] == b"hello"


def test_body_that_does_not_come_is_answered_408(connect):
    _, client = connect(echo, body_seconds=0.2)
    client = client()
    assert client.answer(client.ask("/", "POST", ends=False))[0] == 408


def test_idle_connection_is_told_and_closed(connect):
    _, client = connect(hello, idle_seconds=0.2)
    client = client()
    assert client.get()[2] == b"hello"
    client.wait_for(events.ConnectionTerminated)
    while client.read():
        pass


def test_requests_beyond_the_limit_wait_and_are_refused(connect):
    gate = syncless.Event()

    def app(environ, start_response):
        gate.wait()
        return hello(environ, start_response)

    _, client = connect(app, requests=1, queued=1)
    client = client()
    first, second, third = [client.ask() for _ in range(3)]
    status, headers, _ = client.answer(third)
    assert status == 503 and "retry-after" in headers
    gate.set()
    assert client.answer(first)[2] == client.answer(second)[2] == b"hello"


def test_stop_lets_streams_end(connect):
    gate = syncless.Event()

    def app(environ, start_response):
        gate.wait()
        return hello(environ, start_response)

    server, client = connect(app)
    client = client()
    stream = client.ask()
    assert eventually(lambda: server.census()["active"] == 1)
    stopper = syncless.spawn(server.stop)
    client.wait_for(events.ConnectionTerminated)
    gate.set()
    rest = b""
    while data := client.sock.recv(65536):  # the library h2 takes no more after GOAWAY
        rest += data
    assert b"hello" in rest and stream.to_bytes(4, "big") in rest
    stopper.join()


@pytest.mark.parametrize("kind", ["ping", "settings", "priority", "empty", "reset"])
def test_flood_ends_the_connection_and_harms_no_other(connect, kind):
    _, client = connect(echo)
    bad, good = client(), client()
    stream = bad.ask("/", "POST", ends=False)
    with contextlib.suppress(OSError, exceptions.ProtocolError):
        for _ in range(5000):
            if kind == "ping":
                bad.h2.ping(b"12345678")
            elif kind == "settings":
                bad.h2.update_settings({4: 70000})
            elif kind == "priority":
                bad.h2.prioritize(stream, weight=20)
            elif kind == "empty":
                bad.h2.send_data(stream, b"")
            else:
                bad.h2.reset_stream(bad.ask("/", "GET"))
            bad.flush()
    ended = []
    with contextlib.suppress(AssertionError):
        ended.append(bad.wait_for(events.ConnectionTerminated).error_code)
    assert ended in ([11], [])  # ENHANCE_YOUR_CALM, if the client still hears it
    while bad.read():
        pass
    assert good.get("/", "POST", body=b"x")[2] == b"x"


def test_access_log_names_the_protocol(connect, tmp_path):
    path = tmp_path / "log"
    _, client = connect(hello, access_log=str(path))
    assert client().get()[2] == b"hello"
    assert eventually(lambda: '"GET / HTTP/2.0" 200 5' in path.read_text())


def test_client_that_asks_for_it_in_the_handshake_gets_it(https, authority):
    server = https(hello)
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])

    def ask():
        raw = blocking.create_connection(server.address, timeout=60)
        client = Client.over(context.wrap_socket(raw, server_hostname="localhost"))
        try:
            return client.get()
        finally:
            client.close()

    status, headers, body = run_in_thread(ask)
    assert (status, headers["x-protocol"], body) == (200, "HTTP/2.0", b"hello")


def test_client_of_tls_that_does_not_ask_is_refused(https, authority):
    server = https(hello)

    def ask():
        raw = blocking.create_connection(server.address, timeout=60)
        with authority.client_context().wrap_socket(raw, server_hostname="localhost") as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            return client.recv(100)

    assert run_in_thread(ask).startswith(b"HTTP/1.1 505 ")


def test_without_the_option_the_preface_is_refused(start):
    client = start.client(start(hello))
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert client.response()[0] == 505


def test_preface_that_comes_byte_by_byte_begins_a_session(connect):
    server, _ = connect(hello)
    with socket.create_connection(server.address, timeout=60) as client:
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0":
            client.sendall(bytes([byte]))
            syncless.sleep(0)
        assert client.recv(9)[3] == 4  # SETTINGS
