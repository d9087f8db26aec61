"""Clients of HTTP/2 that leave, multiply work or hold memory, beside those that only look like it."""

import contextlib
import io
import re
import time

import pytest

import syncless
from syncless.http.errors import ClientGone
from syncless.http.listener import CELLS, Counters, totals
from syncless.io import socket
from tests import needs
from tests.fuzz_http2 import GET, POST, PREFACE, WEBSOCKET, frame
from tests.http2.test_http2 import echo, frames_of, gated, goaways, hello, recorded
from tests.http2_client import connector, events, exceptions
from tests.waiting import eventually

pytestmark = [
    pytest.mark.virtual_time,
    needs.HTTP2,
]

connect = pytest.fixture(connector)

DATA, HEADERS, RST_STREAM, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 7, 8
ENHANCE_YOUR_CALM, REFUSED_STREAM = 11, 7


@contextlib.contextmanager
def raw(server, sent=b""):
    """A connection that has begun, and its frames."""
    with socket.create_connection(server.address, timeout=60) as sock, sock.makefile("rb") as file:
        sock.sendall(PREFACE + sent)
        yield sock, file


def resets(file, until):
    """The error of each stream that is reset, until that one is."""
    found = {}
    for kind, _, stream, payload in frames_of(file):
        if kind == RST_STREAM:
            found[stream] = int.from_bytes(payload, "big")
        if until in found:
            break
    return found


def counted(server):
    """Where the server counts."""
    cells = memoryview(bytearray(CELLS * 8)).cast("q")
    for listener in server.listeners:
        listener.counters = Counters(cells)
    return lambda: totals(cells)


# -- between a look and its use ------------------------------------------------------------------------------


class SlowLog(io.StringIO):
    """Each entry lets others run."""

    def write(self, text):
        syncless.sleep(0.01)
        return super().write(text)


@pytest.mark.parametrize("trailers", [False, True])
def test_client_may_leave_while_the_log_tells_that_it_takes_no_such_head(connect, trailers):
    def app(environ, start_response):
        begun.set()
        gate.wait()
        start_response("200 OK", [] if trailers else [("X", "y" * 100)])
        return [b"hello"]

    begun, gate = syncless.Event(), syncless.Event()
    log = SlowLog()
    server, client = connect(app, error_log=log)
    with raw(server, frame(4, 0, 0, b"\0\6\0\0\0\1") + frame(HEADERS, 5, 1, GET)) as (sock, _):
        begun.wait()
        gate.set()
        while not server.census()["connections"] or "larger" in log.getvalue():
            syncless.sleep(0)
        syncless.sleep(0.005)  # the entry is being written
        sock.close()
    assert eventually(lambda: "larger than its client accepts" in log.getvalue())
    assert client().get()[2] == b"hello"
    assert eventually(lambda: server.census()["active"] == 0)


# -- what never ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reset", "leave"])
@pytest.mark.parametrize("size", [1, 8000, 16384])
def test_response_without_an_end_is_stopped_when_its_client_has_left(connect, how, size):
    failures = []

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * size
                syncless.sleep(0.002)
        finally:
            failures.append(environ)

    server, client = connect(app)
    client = client()
    stream = client.ask()
    client.wait_for(events.DataReceived, stream)
    if how == "reset":
        client.h2.reset_stream(stream)
        client.flush()
    else:
        client.close()
    assert eventually(lambda: failures and server.census()["active"] == 0)


def test_writing_after_the_client_has_left_raises_client_gone(connect):
    failures = []

    def app(environ, start_response):
        write = start_response("200 OK", [])
        begun.set()
        gate.wait()
        try:
            write(b"x")
        except ClientGone as error:
            failures.append(error)
        return []

    begun, gate = syncless.Event(), syncless.Event()
    server, client = connect(app)
    client = client()
    stream = client.ask()
    begun.wait()
    client.h2.reset_stream(stream)
    client.flush()
    assert eventually(lambda: server.census()["connections"] == 1)
    syncless.sleep(0.1)
    gate.set()
    assert eventually(lambda: failures)


@pytest.mark.parametrize("when", ["before", "while it runs", "after"])
def test_connection_is_idle_after_its_last_stream_was_reset(connect, when):
    app, gate = gated()
    server, _ = connect(app, idle_seconds=2, head_seconds=2)
    with raw(server, frame(HEADERS, 5, 1, GET)) as (sock, file):
        if when != "before":
            assert eventually(lambda: server.census()["active"] == 1)
        if when == "after":
            gate.set()
            assert any(kind == DATA and flags & 1 for kind, flags, _, _ in frames_of(file))
        sock.sendall(frame(RST_STREAM, 0, 1, b"\0\0\0\x08"))
        syncless.sleep(0.1)
        gate.set()
        began = time.monotonic()
        while sock.recv(65536):
            pass
        assert 1 < time.monotonic() - began < 4


# -- work that a byte multiplies -----------------------------------------------------------------------------


def bomb(stream, head=GET):
    """Fields of which one of 4,000 bytes is named 12,000 times over."""
    large = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
    return frame(HEADERS, 5, stream, head + large + b"\xbe" * 12_000)


def test_list_of_fields_far_beyond_the_limit_is_not_looked_at(connect):
    server, client = connect(hello)
    good = client()
    with raw(server) as (sock, file):
        sock.sendall(bomb(1))
        assert resets(file, 1) == {1: ENHANCE_YOUR_CALM}
        sock.sendall(frame(HEADERS, 5, 3, GET))
        assert any(kind == DATA and stream == 3 for kind, _, stream, _ in frames_of(file))
        sock.sendall(b"".join(bomb(5 + 2 * i) for i in range(20)))
        assert goaways(file) == [ENHANCE_YOUR_CALM]
    assert good.get()[2] == b"hello"


def test_list_of_fields_a_little_beyond_the_limit_is_answered_431(connect):
    _, client = connect(hello, head_bytes=20_000)
    client = client()
    for _ in range(100):
        assert client.get("/", "GET", ("x", "y" * 21_000))[0] == 431


def test_lists_of_fields_that_unpack_to_much_more_than_their_bytes_cost_credit(connect):
    """Each of them is allowed; 100 of them are not, and no more are unpacked."""
    app, asked = recorded()
    server, _ = connect(app)
    with raw(server) as (sock, file):
        large = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
        head = GET.replace(b"\x41", b"\x01")  # which does not go to the table
        sock.sendall(frame(HEADERS, 5, 1, head + large))
        sock.sendall(b"".join(frame(HEADERS, 5, 3 + 2 * i, head + b"\xbe" * 6) for i in range(100)))
        assert goaways(file) == [ENHANCE_YOUR_CALM]
    assert len(asked) < 20


def test_request_with_as_many_cookies_as_a_browser_sends_costs_no_credit(connect):
    _, client = connect(hello)
    client = client()
    cookies = [("cookie", f"c{i}=" + "v" * 60) for i in range(30)]
    for _ in range(1000):
        assert client.get("/", "GET", *cookies)[0] == 200


def test_trailers_far_beyond_their_limit_reset_their_stream(connect):
    server, _ = connect(echo)
    with raw(server, frame(HEADERS, 4, 1, POST)) as (sock, file):
        sock.sendall(bomb(1, head=b""))
        assert resets(file, 1)
        sock.sendall(frame(HEADERS, 5, 3, GET))
        assert any(kind == HEADERS and stream == 3 for kind, _, stream, _ in frames_of(file))


# -- no attack -----------------------------------------------------------------------------------------------


def test_streams_beyond_the_limit_are_refused_and_the_others_go_on(connect, errors):
    """RFC 9113, 5.1.2: the client repeats them."""
    app, gate = gated()
    server, _ = connect(app, streams=10, error_log=errors)
    counts = counted(server)
    with raw(server) as (sock, file):
        limit = next(payload for kind, flags, _, payload in frames_of(file) if kind == 4 and not flags)
        assert limit[:6] == b"\0\3\0\0\0\x0a"
        sock.sendall(frame(4, 1, 0))  # SETTINGS are acknowledged: from now on they hold
        sock.sendall(b"".join(frame(HEADERS, 5, 1 + 2 * i, GET) for i in range(13)))
        assert resets(file, 25) == dict.fromkeys((21, 23, 25), REFUSED_STREAM)
        gate.set()
        ended = set()
        while len(ended) < 10:
            kind, flags, stream, _ = next(frames_of(file))
            assert kind not in (RST_STREAM, GOAWAY)
            if kind == DATA and flags & 1:
                ended.add(stream)
        sock.sendall(frame(0, 1, 21, b"that was on its way") + frame(HEADERS, 5, 27, GET))
        assert any(kind == DATA and stream == 27 for kind, _, stream, _ in frames_of(file))
    assert counts()["http2_resets"] == {"refused_stream": 3}
    assert "limit streams=10 is reached: further requests on the same connection" in errors.getvalue()
    server.stop()
    assert re.search(r"limit streams=10 was reached for \d.\d s: 3 refused", errors.getvalue())


def test_resets_after_whole_responses_are_no_flood(connect):
    server, _ = connect(hello)
    with raw(server) as (sock, file):
        frames = frames_of(file)
        for stream in range(1, 6001, 2):
            sock.sendall(frame(HEADERS, 5, stream, GET))
            assert any(kind == DATA and flags & 1 for kind, flags, _, _ in frames)
            sock.sendall(frame(RST_STREAM, 0, stream, bytes(4)))
        sock.sendall(frame(HEADERS, 5, 6001, GET))
        assert any(kind == DATA and flags & 1 for kind, flags, _, _ in frames)


def test_cancelling_ten_requests_a_second_is_no_flood(connect):
    """A browser does so while somebody types."""

    def app(environ, start_response):
        syncless.sleep(1)
        return hello(environ, start_response)

    server, _ = connect(app)
    with raw(server) as (sock, file):
        for stream in range(1, 4001, 2):
            sock.sendall(frame(HEADERS, 5, stream, GET))
            syncless.sleep(0.01)
            sock.sendall(frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
            syncless.sleep(0.09)
        sock.sendall(frame(HEADERS, 5, 4001, GET))
        assert any(kind == DATA and flags & 1 for kind, flags, _, _ in frames_of(file))


# -- memory --------------------------------------------------------------------------------------------------


def fill_windows(sock, file, streams):
    """Uploads whose bodies are sent as far as the windows allow."""
    room, left = 65535, dict.fromkeys(streams, 65535)
    for stream in streams:
        sock.sendall(frame(HEADERS, 4, stream, POST))
    while room and any(left.values()):
        stream = next(stream for stream in streams if left[stream])
        size = min(room, left[stream], 16384)
        sock.sendall(frame(DATA, 0, stream, bytes(size)))
        room -= size
        left[stream] -= size


def test_connection_whose_applications_do_not_read_holds_one_window(connect):
    app, gate = gated()
    server, _ = connect(app)
    with raw(server) as (sock, file):
        fill_windows(sock, file, range(1, 33, 2))
        sock.sendall(frame(6, 0, 0, bytes(8)))
        opened = []
        for kind, _, stream, payload in frames_of(file):
            if kind == WINDOW_UPDATE:
                opened.append((stream, payload))
            if kind == 6:
                break
        assert not opened
        assert server.census()["buffered bytes"] < 200_000
        gate.set()


def test_body_that_nobody_reads_does_not_stop_the_bodies_of_others(connect):
    """The window of the connection opens for those that are read."""
    gate = syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/stuck":
            gate.wait()
        return echo(environ, start_response)

    _, client = connect(app)
    client = client()
    stuck = [client.ask("/stuck", "POST", ends=False) for _ in range(8)]
    for stream in stuck:
        size = min(60_000, client.h2.local_flow_control_window(stream))
        while size:
            client.h2.send_data(stream, bytes(min(size, 16384)))
            size -= min(size, 16384)
    client.flush()
    body = bytes(range(256)) * 2000
    for _ in range(3):
        stream = client.ask("/", "POST", ends=False)
        client.upload(stream, body)
        assert client.answer(stream)[2] == body
    gate.set()


def test_bodies_beyond_the_buffers_are_reset(connect):
    app, gate = gated("/stuck")
    server, client = connect(app, buffered_bytes=300_000)
    counts = counted(server)
    most = 0
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            sock, file = stack.enter_context(raw(server))
            with contextlib.suppress(OSError):
                fill_windows(sock, file, [1, 3])
            most = max(most, server.census()["buffered bytes"])
        assert client().get("/", "POST", body=b"x" * 1000)[2] == b"hello"
    gate.set()
    assert most < 900_000
    assert counts()["http2_resets"].get("enhance_your_calm", 0) > 10


def test_responses_that_nobody_takes_wait_with_little_while_the_buffers_are_full(connect):
    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(20):
            yield bytes(4000)

    server, client = connect(app, buffered_bytes=200_000)
    client = client()
    client.opens_windows = False
    client.h2.update_settings({4: 0})  # SETTINGS_INITIAL_WINDOW_SIZE
    for _ in range(60):
        client.ask()
    while sum(isinstance(event, events.ResponseReceived) for event in client.events) < 60:
        assert client.read()
    syncless.sleep(0.1)
    assert 200_000 < server.census()["buffered bytes"] < 2_000_000


# -- malformed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [b"no colon here", b": no name", b"a name: x", b"Upgrade: web\0socket", b"X: a\rb"],
)
def test_handshake_with_a_malformed_line_fails_its_application_alone(connect, reports, line):
    failures = []

    def app(environ, start_response):
        sock = environ.get("werkzeug.socket")
        if sock is None:
            return hello(environ, start_response)
        try:
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n" + line + b"\r\n\r\n")
        except ValueError as error:
            failures.append(error)
        return []

    server, client = connect(app, error_log=io.StringIO())
    with raw(server, frame(HEADERS, 4, 1, WEBSOCKET)) as (_, file):
        assert resets(file, 1)
    assert len(failures) == 1
    assert client().get()[2] == b"hello"


def test_handshake_with_a_malformed_status_fails_its_application_alone(connect):
    def app(environ, start_response):
        sock = environ.get("werkzeug.socket")
        if sock is None:
            return hello(environ, start_response)
        sock.sendall(b"HTTP/1.1 no status\r\n\r\n")
        return []

    log = io.StringIO()
    server, client = connect(app, error_log=log)
    with raw(server, frame(HEADERS, 4, 1, WEBSOCKET)) as (_, file):
        assert resets(file, 1)
    assert "handshake" in log.getvalue()
    assert client().get()[2] == b"hello"


@pytest.mark.parametrize(
    ("scheme", "method", "path", "status"),
    [
        (b"foo", b"GET", b"http://evil/x", 400),
        (b"foo", b"GET", b"evil", 400),
        (b"foo", b"OPTIONS", b"*", 200),
        (b"foo", b"GET", b"*", 400),
        (b"foo", b"OPTIONS", b"*x", 400),
        (b"foo", b"OPTIONS", b"http://evil/x", 400),
        (b"foo", b"GET", b"/x", 200),
        (b"http", b"GET", b"/x", 200),
    ],
)
def test_path_overrides_no_authority(connect, scheme, method, path, status):
    def literal(name, value):
        return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value

    hosts = []

    def app(environ, start_response):
        hosts.append(environ["HTTP_HOST"])
        return hello(environ, start_response)

    server, _ = connect(app)
    head = b"".join(
        literal(b":" + name, value)
        for name, value in [
            (b"method", method),
            (b"scheme", scheme),
            (b"authority", b"good"),
            (b"path", path),
        ]
    )
    with raw(server, frame(HEADERS, 5, 1, head)) as (_, file):
        answer = next(
            payload for kind, _, stream, payload in frames_of(file) if stream == 1 and kind in (1, 3)
        )
    assert (answer[:1] == b"\x88") == (status == 200)  # the static table's ":status 200"
    assert hosts == ["good"] * (status == 200)


# -- what an operator sees -----------------------------------------------------------------------------------


def test_connection_that_is_ended_for_an_error_is_counted_and_logged(connect, errors):
    server, client = connect(hello, error_log=errors)
    counts = counted(server)
    bad = client()
    with contextlib.suppress(OSError, exceptions.ProtocolError):
        for _ in range(3000):
            bad.h2.ping(b"12345678")
            bad.flush()
    while bad.read():
        pass
    with raw(server, frame(DATA, 0, 1, b"x")) as (_, file):
        assert goaways(file) == [1]
    with socket.create_connection(server.address, timeout=60) as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + bytes(100))
        while sock.recv(65536):
            pass
    assert eventually(lambda: server.census()["connections"] == 0)
    assert counts()["http2_goaways"] == {"enhance_your_calm": 1, "protocol_error": 2}
    lines = [line for line in errors.getvalue().splitlines() if "HTTP/2 connection of 127.0.0.1" in line]
    assert len(lines) == 3
    assert "ENHANCE_YOUR_CALM, because it sent too many frames without data" in lines[0]


def test_client_that_leaves_or_is_idle_is_not_logged(connect, errors):
    server, client = connect(hello, error_log=errors, idle_seconds=1)
    counts = counted(server)
    for leaves in (True, False):
        one = client()
        assert one.get()[2] == b"hello"
        if leaves:
            one.close()
        else:
            while one.read():
                pass
    assert eventually(lambda: server.census()["connections"] == 0)
    assert counts()["http2_goaways"] == {} and not errors.getvalue()


# -- a stop --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("asked", [True, False])
def test_stop_tells_an_idle_connection_at_once_and_does_not_wait_for_it(connect, leaves, asked):
    server, client = connect(hello, stop_seconds=30, stop_idle_seconds=2)
    client = client()
    if asked:
        assert client.get()[2] == b"hello"
    syncless.sleep(5)
    began = time.monotonic()
    stopper = syncless.spawn(server.stop)
    client.wait_for(events.ConnectionTerminated)
    assert time.monotonic() - began < 0.1
    if leaves:
        client.close()
    stopper.join()
    assert time.monotonic() - began < (1 if leaves else 3)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHo", PREFACE + frame(HEADERS, 1, 1, GET), PREFACE[:30]])
def test_stop_waits_no_longer_for_a_part_of_a_head_than_for_an_idle_client(connect, sent):
    server, _ = connect(hello, stop_seconds=30, stop_idle_seconds=2)
    with socket.create_connection(server.address, timeout=60) as sock:
        sock.sendall(sent)
        syncless.sleep(3)
        began = time.monotonic()
        stopper = syncless.spawn(server.stop)
        answer = b""
        while data := sock.recv(65536):
            answer += data
        stopper.join()
        assert time.monotonic() - began < 3
    if sent.startswith(b"GET"):
        assert answer.startswith(b"HTTP/1.1 503 ")
