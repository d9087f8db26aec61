"""Windows of HTTP/2: an answer waits for them no longer than one of HTTP/1.1 waits for its client."""

import contextlib
import socket as blocking
import time

import pytest

import syncless
from syncless.io import socket
from tests import needs
from tests.http2_client import Client, connector, events
from tests.waiting import eventually

pytestmark = [
    pytest.mark.virtual_time,
    needs.HTTP2,
]

connect = pytest.fixture(connector)
RESET = b"\0\0\4\3\0\0\0\0\1"  # the head of the frame, for the first stream


def sized(environ, start_response):
    """As many bytes as the path says, whole or in parts."""
    start_response("200 OK", [])
    body = bytes(int(environ["PATH_INFO"][1:]))
    return in_parts(body) if environ["QUERY_STRING"] else [body]


def in_parts(body):
    yield body
    syncless.sleep(0.01)  # so that the end comes alone


def shut(client, window=0):
    client.opens_windows = False
    client.h2.update_settings({4: window})  # SETTINGS_INITIAL_WINDOW_SIZE
    client.flush()
    return client


def seconds_to_reset(client, stream):
    began = time.monotonic()
    assert client.answer(stream)[2] is None
    return time.monotonic() - began


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


@pytest.mark.parametrize(
    ("path", "window"), [("/5", 0), ("/5?in-parts", 0), ("/5?in-parts", 5), ("/60000", 100), ("/900000", 0)]
)
def test_answer_that_nobody_takes_is_reset(connect, path, window):
    """The application has ended, and waits for nothing."""
    server, client = connect(sized, write_seconds=5)
    client = shut(client(), window)
    stream = client.ask(path)
    assert 4 < seconds_to_reset(client, stream) < 12
    assert client.get("/0")[0] == 200
    assert eventually(lambda: server.census()["buffers"] == 0)


def test_answer_behind_the_window_of_its_connection_is_reset(connect):
    _, client = connect(sized, write_seconds=5)
    client = shut(client(), 1_000_000)
    assert len(client.get("/65535")[2]) == 65535
    stream = client.ask("/5")
    assert 4 < seconds_to_reset(client, stream) < 12


def test_refusal_that_nobody_takes_is_reset(connect):
    _, client = connect(sized, write_seconds=5, head_bytes=1000)
    client = shut(client())
    stream = client.ask("/", "GET", ("x", "y" * 2000))
    assert 4 < seconds_to_reset(client, stream) < 12


def test_answer_that_is_taken_byte_by_byte_is_reset(connect):
    _, client = connect(sized, write_seconds=5, write_grace_seconds=20)
    client = shut(client(), 1)
    stream = client.ask("/60000")
    began = time.monotonic()

    def open_windows():
        while not any(isinstance(event, events.StreamReset) for event in client.events):
            client.h2.increment_flow_control_window(1, stream)
            client.flush()
            syncless.sleep(1)

    opener = syncless.spawn(open_windows)
    assert client.answer(stream)[2] is None
    assert 20 < time.monotonic() - began < 40
    opener.join()


def test_answer_that_is_taken_slowly_goes_on(connect):
    _, client = connect(sized, write_seconds=5)
    client = shut(client(), 1000)
    stream = client.ask("/60000")

    def open_windows():
        for _ in range(59):
            syncless.sleep(2)
            client.h2.increment_flow_control_window(1000, stream)
            client.flush()

    opener = syncless.spawn(open_windows)
    assert len(client.answer(stream)[2]) == 60000
    opener.join()


def test_connection_that_has_only_such_answers_is_idle_after_them(connect):
    _, client = connect(sized, write_seconds=5, idle_seconds=10)
    client = shut(client())
    client.ask("/5")
    client.wait_for(events.ConnectionTerminated)
    while client.read():
        pass


def test_stop_does_not_wait_for_a_client_that_takes_nothing(connect):
    server, client = connect(sized, stop_seconds=5, stop_idle_seconds=1)
    client = shut(client())
    stream = client.ask("/5")
    client.wait_for(events.ResponseReceived, stream)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 8
    assert not any(server.census().values())


def test_client_that_says_goodbye_and_takes_nothing_is_closed(connect):
    _, client = connect(sized, write_seconds=5)
    client = shut(client())
    stream = client.ask("/5")
    client.wait_for(events.ResponseReceived, stream)
    client.h2.close_connection()
    client.flush()
    began = time.monotonic()
    while client.sock.recv(65536):
        pass
    assert time.monotonic() - began < 12


@pytest.mark.parametrize("parts", [1, 120])
def test_slow_reader_of_wide_windows_goes_on(connect, parts):
    """The kernel tells of room for more only when much has been read, long after write_seconds."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [bytes(12_000_000)] if parts == 1 else (bytes(100_000) for _ in range(parts))

    server, _ = connect(app, write_seconds=1, write_grace_seconds=0.1)
    sock = socket.socket()
    sock.setsockopt(blocking.SOL_SOCKET, blocking.SO_RCVBUF, 4096)
    sock.connect(server.address)
    with contextlib.closing(Client.over(sock)) as client:
        shut(client, 1 << 30)
        client.h2.increment_flow_control_window(1 << 30)
        client.ask()
        received = 0
        while received < 12_000_000:
            part = sock.recv(4096)
            assert part and RESET not in part, f"after {received} bytes"
            received += len(part)
            syncless.sleep(0.01 if received < 600_000 else 0)
