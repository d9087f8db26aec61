"""A client of HTTP/2 sees the answer to an upload that nobody read, and cannot send without end."""

import contextlib
import time

import pytest

import syncless
from tests import needs
from tests.http.test_linger import deaf
from tests.http2_client import connector, events
from tests.waiting import eventually

pytestmark = [
    pytest.mark.virtual_time,
    needs.HTTP2,
]

connect = pytest.fixture(connector)


@pytest.mark.parametrize("path", ["/short", "/long", "/streamed"])
@pytest.mark.parametrize("limits", [{}, {"body_bytes": 1000}])
def test_upload_larger_than_its_window_ends_in_its_answer(connect, path, limits):
    """A client may wait for the window and not look whether its stream has been reset, as httpx does."""
    _, client = connect(deaf, **limits)
    client = client()
    stream = client.ask(path, "POST", ("content-length", "300000"), ends=False)
    client.upload(stream, bytes(300_000))
    status, _, body = client.answer(stream)
    assert status == (413 if limits else 200)
    assert limits or body == b"unread" * (len(body) // 6)
    assert not any(isinstance(event, events.StreamReset) for event in client.events)
    assert client.get(path)[2] == (b"unread" if path != "/long" else b"unread" * 2_000_000)


def end_of_linger(client, stream, send):
    """Sends until the server resets the stream, whose answer has come; returns the seconds."""
    began = time.monotonic()
    while not any(isinstance(event, events.StreamReset) for event in client.events):
        send()
    reset = client.wait_for(events.StreamReset, stream)
    assert reset.error_code == 0
    assert client.answer(stream)[2] == b"unread"
    assert client.get()[2] == b"unread"  # its connection is none the worse
    return time.monotonic() - began


def test_stream_that_never_stops_sending_is_reset(connect):
    server, client = connect(deaf, linger_bytes=300_000)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    sent = [0]

    def send():
        room = min(client.h2.local_flow_control_window(stream), 16384)
        if room:
            client.h2.send_data(stream, bytes(room))
            client.flush()
            sent[0] += room
        else:
            assert client.read()
        assert server.census()["buffered bytes"] < 200_000

    end_of_linger(client, stream, send)
    assert 300_000 <= sent[0] < 500_000


def test_stream_that_sends_slowly_is_reset_in_time(connect):
    _, client = connect(deaf, linger_seconds=10, linger_idle_seconds=1, body_rate=0)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    client.wait_for(events.StreamEnded, stream)

    def trickle():
        with contextlib.suppress(OSError):
            while True:
                client.h2.send_data(stream, bytes(100))
                client.flush()
                syncless.sleep(0.04)

    syncless.spawn(trickle)
    assert 8 < end_of_linger(client, stream, client.read) < 12


def test_silent_stream_is_reset_before_its_time_is_over(connect):
    _, client = connect(deaf, linger_seconds=1000, linger_idle_seconds=1)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    assert end_of_linger(client, stream, client.read) < 3


@pytest.mark.parametrize("status", ["200 OK", "204 No Content"])
def test_body_can_be_read_after_the_end_of_its_response(connect, status):
    seen = []

    def app(environ, start_response):
        start_response(status, [("Content-Length", "0")] if status == "200 OK" else [])
        yield b"dropped"
        seen.append(len(environ["wsgi.input"].read()))

    _, client = connect(app)
    client = client()
    stream = client.ask("/", "POST", ends=False)
    client.wait_for(events.StreamEnded, stream)
    client.upload(stream, bytes(200_000))
    assert client.answer(stream)[0] == int(status[:3])
    assert eventually(lambda: seen == [200_000])
