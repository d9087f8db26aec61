"""Stopping: from inside and by signals, with requests in flight."""

import os
import signal
import socket as blocking
import subprocess
import sys
import time

import pytest

import syncless
from syncless.io import socket
from syncless.server.program import running
from syncless.server.sockets import begin_no_more
from syncless.wsgi import Server
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"

APP = """
import pathlib, syncless
def app(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        pathlib.Path("begun").touch()
        while not pathlib.Path("end").exists():
            syncless.sleep(0.01)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def slow(environ, start_response):
    syncless.sleep(float(environ["QUERY_STRING"] or 0))
    start_response("200 OK", [])
    return [b"ok"]


def test_requests_in_flight_end_and_idle_connections_close(start):
    begun, may_end = syncless.Event(), syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/busy":
            begun.set()
            may_end.wait()
        return slow(environ, start_response)

    server = start(app, stop_seconds=20, stop_idle_seconds=0.05)
    idle, busy = start.client(server), start.client(server)
    assert idle.get("/?0")[2] == b"ok"
    busy.send(b"GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
    begun.wait()
    stopping = syncless.spawn(server.stop)
    assert idle.at_end() and not stopping.done()
    may_end.set()
    status, headers, body = busy.response()
    assert (status, body) == (200, b"ok") and headers["connection"] == "close" and busy.at_end()
    stopping.join()
    with pytest.raises(OSError):
        start.client(type("Old", (), {"address": ("127.0.0.1", 1)}))


def test_stopping_server_answers_next_request_of_kept_connection_and_closes_it(start):
    server = start(slow, stop_seconds=20, stop_idle_seconds=20)
    kept = [start.client(server) for _ in range(3)]
    for client in kept:
        assert "connection" not in client.get()[1]
    stopping = syncless.spawn(server.stop)
    assert eventually(lambda: server.addresses == [])
    syncless.sleep(0.1)
    for client in kept:
        status, headers, body = client.get()
        assert (status, headers["connection"], body) == (200, "close", b"ok") and client.at_end()
    stopping.join()


@pytest.mark.parametrize("closing", ["stop", "idle deadline", "room for another"])
def test_request_that_has_come_is_answered_before_idle_connection_closes(start, closing):
    """The loop has not told of it yet, because all this happens in one turn of it."""
    server = start(
        slow, stop_idle_seconds=0, idle_seconds=0.2, connections=1 if closing == "room for another" else 0
    )
    client = start.client(server)
    assert client.get()[0] == 200
    if closing == "room for another":
        with blocking.create_connection(server.address) as other:
            other.sendall(GET)
            client.send(GET)
            assert client.response()[0] == 200
        return
    if closing == "idle deadline":
        time.sleep(0.3)
    client.send(GET)
    if closing == "stop":
        server.stop()
    assert client.response()[0] == 200


def test_request_whose_first_bytes_have_come_is_answered_when_the_server_stops(start):
    server = start(slow, stop_seconds=60, stop_idle_seconds=0)
    client = start.client(server)
    client.get()
    client.send(b"GET / HTTP/1.1\r\n")
    assert eventually(lambda: server.census()["buffered bytes"])
    stopping = syncless.spawn(server.stop)
    syncless.sleep(0.01)
    client.send(b"Host: a\r\n\r\n")
    assert client.response()[0] == 200
    stopping.join()


@pytest.mark.parametrize("options", [{}, {"defer_accept": False}, {"connections": 10}])
def test_connections_that_wait_to_be_accepted_are_answered_when_server_stops(start, options):
    server = start(slow, stop_seconds=10, **options)
    waiting = [blocking.create_connection(server.address) for _ in range(150)]
    for client in waiting:
        client.sendall(GET)
    server.stop()
    for client in waiting:
        with client:
            answer = client.recv(1000)
            assert answer.startswith(b"HTTP/1.1 200") and b"\r\nConnection: close\r\n" in answer


@pytest.mark.parametrize("defer_accept", [True, False])
def test_stopping_loses_no_connection_that_has_been_made(defer_accept, monkeypatch):
    """And makes no more of them."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        if not begin_no_more(probe):
            pytest.skip("the system takes no filter of packets from this user")
    monkeypatch.setattr(running, "LAST_CALL", 1.0)
    server, ready = Server(slow, port=0, defer_accept=defer_accept), syncless.Event()
    serving = syncless.spawn(server.run, quiet=True, started=ready.set)
    ready.wait()
    address = server.address
    with blocking.create_connection(address) as client:
        os.kill(os.getpid(), signal.SIGTERM)
        assert eventually(lambda: server.addresses == [])
        with socket.socket() as late:
            late.settimeout(0.3)
            with pytest.raises(TimeoutError):
                late.connect(address)
        client.sendall(GET)
        serving.join()
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    with pytest.raises(ConnectionRefusedError):
        blocking.create_connection(address)


def test_requests_are_interrupted_after_the_grace_period(start):
    interrupted = []
    begun = syncless.Event()

    def app(environ, start_response):
        try:
            begun.set()
            syncless.sleep(30)
        except BaseException as error:
            interrupted.append(type(error).__name__)
            raise

    server = start(app)
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    begun.wait()
    started = time.monotonic()
    server.stop(0.05)
    assert 0.05 <= time.monotonic() - started < 0.1 and interrupted == ["TaskletExit"]
    assert client.response()[0] == 503


def test_connection_whose_client_goes_on_sending_is_closed_at_last(start):
    """Its request is answered, and the client does not hear of it."""
    server = start(slow, stop_seconds=0.5, stop_idle_seconds=0.1)
    client = start.client(server)
    client.send(b"POST /?1000 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
    assert eventually(lambda: server.census()["active"] == 1)
    before = syncless.current_loop().census()["watched descriptors"]
    server.stop()
    assert syncless.current_loop().census()["watched descriptors"] == before - 2  # it listens no more, either
    assert client.response()[0] == 503


def test_a_stopped_server_can_start_again():
    server = Server(slow, port=0)
    for _ in range(2):
        with server:
            assert server.port > 0
    server.stop()


@pytest.fixture
def program(tmp_path):
    """Runs `python -m syncless app:app ...` and returns the process and its address; the file that is
    there when /slow has begun."""
    (tmp_path / "app.py").write_text(APP)
    processes = []

    def begin(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "syncless", "app:app", "--bind", "127.0.0.1:0", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        line = process.stdout.readline()
        assert "serves on http://127.0.0.1:" in line, process.stderr.read()
        return process, ("127.0.0.1", int(line.split(":")[2].split("/")[0]))

    yield begin, tmp_path / "begun"
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.virtual_time(False)  # another process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_gracefully(program, start, number):
    begin, begun = program
    process, address = begin()
    client = start.client(type("There", (), {"address": address}))
    client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(begun.exists)
    process.send_signal(number)
    assert any("stop begins: 1 request in flight\n" in line for line in process.stderr)
    begun.with_name("end").touch()
    assert client.response()[2] == b"ok"
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out == "" and "[INFO] stopped after" in err and err.count("\n") == 1


@pytest.mark.virtual_time(False)  # another process
def test_second_signal_stops_at_once(program, start):
    begin, begun = program
    process, address = begin()
    client = start.client(type("There", (), {"address": address}))
    client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(begun.exists)
    process.send_signal(signal.SIGTERM)
    assert any("stop begins" in line for line in process.stderr) and process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.virtual_time(False)  # another process
def test_a_killed_server_leaves_a_socket_file_that_the_next_one_removes(tmp_path, program):
    path = tmp_path / "socket"
    first = subprocess.Popen(
        [sys.executable, "-m", "syncless", "examples.hello", "--bind", f"unix:{path}"], stdout=subprocess.PIPE
    )
    first.stdout.readline()
    second = subprocess.run(
        [sys.executable, "-m", "syncless", "examples.hello", "--bind", f"unix:{path}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 1 and "cannot listen" in second.stderr
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert path.exists()
    with Server(slow, bind=f"unix:{path}"):
        pass
    assert not path.exists()


def test_environ_tells_a_stream_that_the_server_stops(start):
    begun = syncless.Event()

    def app(environ, start_response):
        stopping = environ["syncless.stopping"]
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        while not stopping.wait(1):
            begun.set()
            yield b"data: 1\n\n"

    server = start(app, stop_seconds=3600)
    client = start.client(server)
    client.send(GET)
    begun.wait()
    server.stop()
    body = client.response()[2]
    assert body and body.count(b"data: 1\n\n") * 9 == len(body)
