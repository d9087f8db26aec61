"""HTTP/2: a connection carries requests, each of which is as one of HTTP/1.1 to its application."""

import contextlib
import gc
import importlib
import os
import shutil
import socket as blocking
import subprocess
from xml.etree import ElementTree

import pytest

import syncless
from syncless import run_in_thread
from syncless.http.errors import ClientGone
from syncless.io import socket
from tests import fuzz_http2, needs
from tests.fuzz_http2 import GET, PREFACE, frame
from tests.http2_client import Client, connector, events, exceptions
from tests.preload import without_preload
from tests.waiting import eventually

pytestmark = [
    pytest.mark.virtual_time,
    needs.HTTP2,
]


connect = pytest.fixture(connector)


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Protocol", environ["SERVER_PROTOCOL"])])
    return [b"hello"]


def gated(path="/"):
    """An application that answers requests for this path when the gate is open."""
    gate = syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == path:
            gate.wait()
        return hello(environ, start_response)

    return app, gate


def recorded():
    """An application, and the environs that reach it."""
    asked = []

    def app(environ, start_response):
        asked.append(environ)
        return hello(environ, start_response)

    return app, asked


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
    client.upload(stream, sent)
    assert client.answer(stream) == (200, client.answer(stream)[1], sent)


REQUESTS = [
    ("/", "GET", {}),
    ("/", "GET", {}),
    ("/a%20b?q=1", "GET", {}),
    ("/", "DELETE", {}),
    ("/", "POST", {"body": b"undeclared"}),
    ("/c", "GET", {}),
    ("/", "GET", {"authority": "other"}),
    ("/", "GET", {}),
    ("/", "HEAD", {}),
    ("/?" + "q" * 300, "GET", {}),
]


def told(environ, start_response):
    """What the application is told of its request."""
    known = {
        name: environ[name]
        for name in sorted(environ)
        if isinstance(environ[name], str) and name not in ("REMOTE_PORT", "wsgi.input_terminated")
    }
    start_response("200 OK", [("X-Told", f"{known}")])
    return [environ["wsgi.input"].read()]


@pytest.mark.parametrize("fields", [[], [("x", "1"), ("cookie", "a=b"), ("cookie", "c=d")]])
def test_fields_that_a_connection_sends_again_are_those_of_each_request(connect, fields):
    """The server remembers them: each request gets what it gets as the first of its connection."""
    _, client = connect(told)
    one = client()
    for path, method, options in REQUESTS:
        assert one.get(path, method, *fields, **options) == client().get(path, method, *fields, **options)
        with_length = ("content-length", "1"), *fields
        assert one.get(path, "POST", *with_length, body=b"b")[2] == b"b"
    streams = [one.ask(path, method, *fields, **options) for path, method, options in REQUESTS]
    for stream, (path, method, options) in zip(streams, REQUESTS, strict=True):
        assert one.answer(stream) == client().get(path, method, *fields, **options)


def test_heads_of_responses_follow_one_another_in_any_order(connect):
    """The server remembers the last one."""
    heads = {
        "/a": [("X-A", "1"), ("X-B", "2")],
        "/b": [("X-A", "1"), ("X-B", "3")],
        "/more": [("X-A", "1"), ("X-B", "2"), ("X-C", "3")],
        "/none": [],
        "/large": [("X-Large", "l" * 3000)],
    }

    def app(environ, start_response):
        if environ["QUERY_STRING"]:
            environ["wsgi.early_hints"]([("Link", "</a>; rel=preload"), ("X-A", environ["QUERY_STRING"])])
        start_response("200 OK", heads[environ["PATH_INFO"]])
        return [environ["PATH_INFO"].encode()]

    _, client = connect(app)
    client = client()
    for path in [
        *heads,
        *heads,
        "/a?",
        "/a",
        "/a?h",
        "/a?h",
        "/b?h",
        "/b",
        "/large",
        "/a",
        "/none",
        "/more",
        "/a",
    ]:
        name = path.partition("?")[0]
        stream = client.ask(path)
        status, found, body = client.answer(stream)
        assert (status, body) == (200, name.encode())
        hints = [
            event.headers
            for event in client.events
            if isinstance(event, events.InformationalResponseReceived)
        ]
        client.events.clear()
        asked = path.partition("?")[2]
        expected = [[(":status", "103"), ("link", "</a>; rel=preload"), ("x-a", asked)]] if asked else []
        assert hints == expected
        assert [(one.title(), found[one]) for one in found if one.startswith("x-")] == heads[name]


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


@pytest.mark.parametrize(("at_once", "kept"), [(10, 10), (50, 32)])
def test_objects_of_requests_that_came_together_are_used_again(connect, at_once, kept):
    def exchanges():
        return sum(type(found).__name__ == "WSGIExchange" for found in gc.get_objects())

    before = exchanges()
    _, client = connect(hello)
    client = client()
    for _ in range(2):
        for stream in [client.ask() for _ in range(at_once)]:
            assert client.answer(stream)[2] == b"hello"
        assert exchanges() - before == kept


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
    app, asked = recorded()
    _, client = connect(app)
    bad, good = client(), client()
    stream = bad.ask("/", "GET", *fields)
    status, _, body = bad.answer(stream)
    assert (status == 400 or body is None) and not asked
    assert good.get()[2] == b"hello"


@pytest.mark.parametrize("path", ["/a b", "/a\tb", "relative", "http://b/", ""])
def test_path_that_is_no_target_reaches_no_application(connect, path):
    app, asked = recorded()
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


@pytest.mark.parametrize("most", [1000, None])
def test_head_larger_than_the_client_takes_is_answered_500(connect, errors, most):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/":
            start_response("200 OK", [("x-a", "a" * 1000)] + [("x-b", "b" * 70_000)] * (most is None))
        else:
            start_response("200 OK", [])
        return [b"hello"]

    _, client = connect(app, error_log=errors)
    client = client()
    if most:
        client.h2.update_settings({6: most})  # SETTINGS_MAX_HEADER_LIST_SIZE
    status, _, body = client.get()
    assert (status, body) == (500, b"")
    assert "header fields of a response" in errors.getvalue()
    assert client.get("/small")[2] == b"hello"


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


def test_malformed_head_sets_no_time_for_the_other_streams(connect):
    """A stream that is reset in the middle of its head: the head is over."""
    app, gate = gated()
    _, client = connect(app, head_seconds=1)
    client = client()
    good, bad = client.ask(), client.ask("/", "GET", ("x-a", "a\0"))
    assert client.answer(bad)[2] is None
    syncless.sleep(5)
    gate.set()
    assert client.answer(good)[2] == b"hello"


def test_requests_beyond_the_limit_wait_and_are_refused(connect):
    app, gate = gated()
    _, client = connect(app, requests=1, queued=1)
    client = client()
    first, second, third = [client.ask() for _ in range(3)]
    status, headers, _ = client.answer(third)
    assert status == 503 and "retry-after" in headers
    gate.set()
    assert client.answer(first)[2] == client.answer(second)[2] == b"hello"


def test_pings_of_a_connection_that_stays_are_no_flood(connect):
    """A browser sends some while a WebSocket or a stream of events is silent."""
    app, gate = gated()
    _, client = connect(app)
    client = client()
    stream = client.ask()
    for _ in range(1500):
        client.events.clear()
        client.h2.ping(b"12345678")
        client.flush()
        client.wait_for(events.PingAckReceived)
        syncless.sleep(2)  # in virtual time
    gate.set()
    assert client.answer(stream)[2] == b"hello"


def test_stop_lets_streams_end(connect):
    app, gate = gated()
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


@pytest.mark.parametrize("kind", ["ping", "settings", "priority", "empty", "reset", "unknown", "too late"])
def test_flood_ends_the_connection_and_harms_no_other(connect, kind):
    _, client = connect(echo)
    bad, good = client(), client()
    over = bad.ask()
    assert bad.answer(over)[2] == b""
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
            elif kind == "unknown":
                bad.sock.sendall(frame(250, 0, 0, b""))
            elif kind == "too late":
                bad.sock.sendall(frame(0, 0, over, b""))
            else:
                bad.h2.reset_stream(bad.ask("/", "GET"))
            bad.flush()
    ended = []
    with contextlib.suppress(AssertionError):
        ended.append(bad.wait_for(events.ConnectionTerminated).error_code)
    # ENHANCE_YOUR_CALM, or STREAM_CLOSED, if the client still hears it
    assert ended in ([5 if kind == "too late" else 11], [])
    while bad.read():
        pass
    assert good.get("/", "POST", body=b"x")[2] == b"x"


def test_figures_tell_connections_and_requests_by_protocol(connect, start):
    app, gate = gated("/wait")
    server, client = connect(app, requests=2)
    older = start.client(server)
    older.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    older.response()
    client = client()
    streams = [client.ask("/wait") for _ in range(3)]

    def figures(*names):
        told = server.listeners[0].figures()
        return [told[name] for name in names]

    protocol = "http2", "http2_streams", "http2_requests"
    assert eventually(lambda: figures(*protocol, "running", "queued", "idle") == [1, 3, 0, 2, 1, 1])
    gate.set()
    for stream in streams:
        client.answer(stream)
    assert eventually(lambda: figures(*protocol, "running", "queued", "idle") == [1, 0, 3, 0, 0, 1])
    client.close()
    assert eventually(lambda: figures(*protocol) == [0, 0, 3])


def test_many_streams_do_not_starve_other_connections(connect):
    begun = []

    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        for _ in range(5):
            syncless.sleep(0)
        return hello(environ, start_response)

    _, client = connect(app)
    busy, others = client(), [client() for _ in range(50)]
    busy.get()
    for other in others:
        other.get("/other")
    begun.clear()
    busy.events.clear()
    for _ in range(100):
        busy.ask()
    asked = [other.ask("/other") for other in others]

    def go_on():
        answered = 0
        while answered < 1000:
            assert busy.read()
            ended = sum(isinstance(event, events.StreamEnded) for event in busy.events)
            busy.events.clear()
            answered += ended
            for _ in range(ended):
                busy.ask()

    keeper = syncless.spawn(go_on)
    assert all(other.answer(stream)[2] == b"hello" for other, stream in zip(others, asked, strict=True))
    seen = len(begun)
    assert begun.count("/other") == 50 and seen < 500, "each took its turn among the others"
    keeper.join()


@pytest.mark.parametrize("whole", [True, False])
def test_large_answer_does_not_hold_up_a_small_one_of_its_connection(connect, whole):
    size = 4_000_000

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/":
            return hello(environ, start_response)
        start_response("200 OK", [])
        return [bytes(size)] if whole else (bytes(10_000) for _ in range(size // 10_000))

    _, client = connect(app)
    client = client()
    client.h2.update_settings({4: size})  # SETTINGS_INITIAL_WINDOW_SIZE
    client.h2.increment_flow_control_window(size)
    large, small = client.ask("/large"), client.ask()
    assert client.answer(small)[2] == b"hello"
    end = next(i for i, e in enumerate(client.events) if isinstance(e, events.StreamEnded))
    before = [e for e in client.events[:end] if isinstance(e, events.DataReceived) and e.stream_id == large]
    assert sum(len(event.data) for event in before) < 200_000
    assert len(client.answer(large)[2]) == size


def test_answers_go_in_the_order_of_the_priorities_that_their_requests_have(connect):
    """RFC 9218, 4: the one of urgency 0 before those of urgency 3, though it was asked for last."""
    if not importlib.import_module("syncless.http.http2.session").FOLLOWS_RFC_9218:
        pytest.skip("this libnghttp2 follows the priorities of RFC 7540")
    size, most = 400_000, 10_000_000

    def app(environ, start_response):
        start_response("200 OK", [])
        return [bytes(size)]

    _, client = connect(app)
    client = client()
    client.h2.update_settings({4: most})  # SETTINGS_INITIAL_WINDOW_SIZE
    client.h2.increment_flow_control_window(most)
    streams = [client.ask("/", "GET", ("priority", value)) for value in ("u=3", "u=3, i", "u=0")]
    for stream in streams:
        assert len(client.answer(stream)[2]) == size
    ended = [e.stream_id for e in client.events if isinstance(e, events.StreamEnded)]
    assert ended[0] == streams[2]


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


def literal(name, value, indexed=False):
    """A field that is not in the table; it is put there if it is to be."""
    return (
        (b"\x40" if indexed else b"\0")
        + bytes([len(name)])
        + name
        + b"\x7f"
        + bytes([(len(value) - 127) % 128 + 128, (len(value) - 127) // 128])
        + value
    )


ATTACKS = {
    "continuations without end": [frame(1, 1, 1, GET)] + [frame(9, 0, 1, b"\0\1a\1b")] * 5000,
    "empty continuations": [frame(1, 1, 1, GET)] + [frame(9, 0, 1)] * 5000,
    "a list of fields that unpacks to megabytes": [
        frame(1, 5, 1, GET + literal(b"x", b"y" * 3900, indexed=True)),
        *(frame(1, 5, 3 + 2 * i, GET + b"\xbe" * 4000) for i in range(200)),
    ],
    "a change of the table in each head": [
        frame(1, 5, 1 + 2 * i, b"\x20\x3f\xe1\x1f" + GET) for i in range(2000)
    ],
    "streams that are reset at once": [
        part for i in range(2000) for part in (frame(1, 5, 1 + 2 * i, GET), frame(3, 0, 1 + 2 * i, bytes(4)))
    ],
    "resets that its own bad frames provoke": [
        part for i in range(2000) for part in (frame(1, 4, 1 + 2 * i, GET), frame(8, 0, 1 + 2 * i, bytes(4)))
    ],
    "windows that open by one byte": [frame(1, 4, 1, GET)] + [frame(8, 0, 1, b"\0\0\0\1")] * 5000,
    "more streams than it may have": [frame(1, 4, 1 + 2 * i, GET) for i in range(2000)],
    "data on a stream that has ended": [frame(1, 5, 1, GET)] + [frame(0, 0, 1, b"x")] * 2000,
    "unknown frames": [frame(200, 0, 0)] * 5000,
    "goes on after its own goodbye": [frame(7, 0, 0, bytes(8))] + [frame(6, 0, 0, bytes(8))] * 5000,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_bounded_and_harms_no_other(connect, attack):
    begun, most = [], [0]
    server = None

    def app(environ, start_response):
        if environ.get("HTTP_X") == "good":
            return hello(environ, start_response)
        begun.append(1)
        most[0] = max(most[0], server.census()["active"])
        syncless.sleep(0.01)
        return hello(environ, start_response)

    server, client = connect(app)
    good = client()
    with socket.create_connection(server.address, timeout=60) as bad, contextlib.suppress(OSError):
        held = 0
        bad.sendall(PREFACE)
        for i, part in enumerate(ATTACKS[attack]):
            bad.sendall(part)
            if i % 500 == 0:
                held = max(held, server.census()["buffered bytes"])
                assert good.get("/", "GET", ("x", "good"))[2] == b"hello"
        assert held < 2_000_000
    assert most[0] <= 101
    assert good.get("/", "GET", ("x", "good"))[2] == b"hello"
    assert eventually(lambda: server.census()["active"] == 0)


def test_reset_streams_count_until_their_applications_have_ended(connect):
    app, gate = gated("/wait")
    server, client = connect(app)
    client = client()
    for number in range(60):
        stream = client.ask("/wait")
        assert eventually(lambda number=number: server.census()["active"] == number + 1)
        client.h2.reset_stream(stream)
        client.flush()
    streams = [client.ask("/wait") for _ in range(50)]
    client.wait_for(events.StreamReset, streams[-1])  # REFUSED_STREAM
    assert server.census()["active"] == 100
    gate.set()
    assert client.answer(streams[0])[2] == b"hello"
    assert client.get()[2] == b"hello"


def test_streams_beyond_the_limit_are_refused(connect):
    app, gate = gated()
    _, client = connect(app, streams=1)
    client = client()
    client.wait_for(events.RemoteSettingsChanged)
    assert client.h2.remote_settings.max_concurrent_streams == 1
    stream = client.ask()
    gate.set()
    assert client.answer(stream)[2] == b"hello"


def test_child_of_a_fork_in_a_stream_ends_with_it(connect, tmp_path):
    path = tmp_path / "child"

    def app(environ, start_response):
        if os.fork() == 0:
            path.write_text("was here")
        return hello(environ, start_response)

    _, client = connect(app)
    client = client()
    assert client.get()[2] == b"hello"
    os.wait()
    assert path.exists()
    assert client.get()[2] == b"hello"
    os.wait()


def test_native_handlers_exclude_it(start):
    with pytest.raises(ValueError, match="native handlers"):
        start(hello, http2="cleartext", native={"/": "none:none"})


def test_tasklets_of_streams_are_told_apart(connect):
    names = []

    def app(environ, start_response):
        names.append(syncless.current().name)
        return hello(environ, start_response)

    _, client = connect(app)
    client = client()
    for _ in range(2):
        client.get("/a")
    assert names == ["GET /a (stream 1)", "GET /a (stream 3)"]


def test_stop_interrupts_streams_that_do_not_end(connect):
    def app(environ, start_response):
        syncless.sleep(1000)

    server, client = connect(app, stop_seconds=0.1)
    client = client()
    client.ask()
    assert eventually(lambda: server.census()["active"] == 1)
    stopper = syncless.spawn(server.stop)
    while client.sock.recv(65536):
        pass
    stopper.join()


def test_frames_in_any_order_harm_no_other():
    assert fuzz_http2.run(1, lambda sent: sent > 500) > 500


def frames_of(file):
    """Yields (type, flags, stream, payload) of each frame that comes."""
    while head := file.read(9):
        yield head[3], head[4], int.from_bytes(head[5:], "big"), file.read(int.from_bytes(head[:3], "big"))


def goaways(file):
    """The errors of the GOAWAY frames that come until the server closes."""
    return [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in frames_of(file) if kind == 7]


CLOSED, PROTOCOL_ERROR = 5, 1


@pytest.mark.parametrize("answered_between", [False, True])
@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param(frame(1, 5, 3, GET), CLOSED, id="ended"),
        pytest.param(frame(1, 4, 3, GET) + frame(3, 0, 3, bytes(4)), CLOSED, id="reset"),
        pytest.param(b"", PROTOCOL_ERROR, id="skipped"),
    ],
)
def test_head_on_a_stream_that_is_over_ends_the_connection(connect, frames, code, answered_between):
    """RFC 9113, 5.1 and 5.1.1."""
    server, client = connect(hello)
    with socket.create_connection(server.address, timeout=60) as bad, bad.makefile("rb") as file:
        bad.sendall(PREFACE + frame(1, 5, 1, GET) + frames + frame(1, 5, 5, GET))
        if answered_between:
            assert any(kind == 0 and flags & 1 and stream == 5 for kind, flags, stream, _ in frames_of(file))
        bad.sendall(frame(1, 5, 3, GET))
        assert goaways(file) == [code]
    assert client().get()[2] == b"hello"


@pytest.mark.parametrize("answered_between", [False, True])
@pytest.mark.parametrize("data", [frame(0, 1, 3, b"body"), frame(0, 9, 3, b"\4body" + bytes(4))])
@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(frame(1, 5, 3, GET), id="ended"),
        pytest.param(frame(1, 4, 3, GET) + frame(3, 0, 3, bytes(4)), id="reset"),
        pytest.param(b"", id="skipped"),
    ],
)
def test_data_on_a_stream_that_is_over_ends_the_connection(connect, frames, data, answered_between):
    """RFC 9113, 5.1 and 6.1."""
    server, client = connect(hello)
    with socket.create_connection(server.address, timeout=60) as bad, bad.makefile("rb") as file:
        bad.sendall(PREFACE + frame(1, 5, 1, GET) + frames + frame(1, 5, 5, GET))
        if answered_between:
            assert any(kind == 0 and flags & 1 and stream == 5 for kind, flags, stream, _ in frames_of(file))
        bad.sendall(data)
        assert goaways(file) == [CLOSED]
    assert client().get()[2] == b"hello"


def test_data_with_padding_may_come_in_pieces(connect):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    _, client = connect(app)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    for piece in frame(0, 8, stream, b"\7body" + bytes(7)) + frame(0, 9, stream, b"\0, more"):
        client.sock.sendall(bytes([piece]))
        syncless.sleep(0.001)
    assert client.answer(stream)[2] == b"body, more"
    assert client.get()[2] == b""


def test_data_of_a_request_that_came_too_late_is_no_fault(connect):
    """A server that stops ignores it; the others end."""
    app, gate = gated()
    server, client = connect(app)
    client = client()
    first = client.ask()
    assert eventually(lambda: server.census()["active"] == 1)
    stopper = syncless.spawn(server.stop)
    frames = frames_of(client.sock.makefile("rb"))
    lasts = (int.from_bytes(payload[:4], "big") for kind, _, _, payload in frames if kind == 7)
    assert first in lasts  # after the notice that there will be a last one
    client.sock.sendall(
        frame(1, 4, first + 2, GET) + frame(0, 1, first + 2, b"body") + frame(6, 0, 0, bytes(8))
    )
    assert any(kind == 6 for kind, _, _, _ in frames)
    gate.set()
    assert [payload for kind, _, _, payload in frames if kind == 0] == [b"hello"]
    stopper.join()


def test_frames_that_were_on_their_way_when_a_stream_was_reset_are_no_fault(connect):
    def app(environ, start_response):
        if environ["REQUEST_METHOD"] == "POST":
            start_response("200 OK", [])(b"part")
            raise ValueError("meant by the test")
        return hello(environ, start_response)

    _, client = connect(app, error_log="/dev/null")
    client = client()
    uploads = [client.ask("/", "POST", ends=False) for _ in range(2)]
    for stream in uploads:
        assert client.answer(stream)[2] is None
    for stream in uploads:
        client.sock.sendall(frame(0, 0, stream, b"body") + frame(1, 5, stream, b"\0\1a\1b"))
    assert client.get()[2] == b"hello"


OF_LIBNGHTTP2 = {
    # frames of RFC 7540's priorities, which a server that follows RFC 9218 ignores
    "Sends PRIORITY frame that depend on itself",
    "Sends a PRIORITY frame with 0x0 stream identifier",
    # newer releases end the connection (RFC 9113, 5.4)
    "Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream",
}


def test_h2spec_finds_no_fault(tmp_path, https):
    tool = shutil.which("h2spec", path=os.environ["PATH"] + ":build/bin")
    if tool is None:
        pytest.skip("go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible")

    def app(environ, start_response):
        environ["wsgi.input"].read()
        return hello(environ, start_response)

    server = https(app)
    report = tmp_path / "report.xml"
    command = [tool, "-t", "-k", "-p", str(server.port), "-o", "20", "-j", str(report)]
    run_in_thread(
        subprocess.run,
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=without_preload(),
    )
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert {case.get("classname") for case in cases if len(case)} <= OF_LIBNGHTTP2
    assert len(cases) == 145
