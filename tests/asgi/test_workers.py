"""ASGI applications in workers: lifespans, and requests, streams and WebSockets while workers change."""

import contextlib
import http.client
import os
import signal

import pytest

from tests.supervised import alive
from tests.waiting import eventually

APP = """
import asyncio, os, pathlib

VERSION = {version}

def note(what):
    with open("life", "a") as file:
        file.write(f"{{what}} {{os.getpid()}}\\n")

async def app(scope, receive, send):
    pid = b"%d" % os.getpid()
    if scope["type"] == "lifespan":
        for moment in ("startup", "shutdown"):
            assert (await receive())["type"] == "lifespan." + moment
            note(moment)
            kind = "failed" if VERSION == 0 else "complete"
            await send({{"type": f"lifespan.{{moment}}.{{kind}}", "message": "no database here"}})
    elif scope["type"] == "websocket":
        await receive()
        await send({{"type": "websocket.accept"}})
        while (message := await receive())["type"] == "websocket.receive":
            await send({{"type": "websocket.send", "bytes": pid}})
    elif scope["path"] == "/events":
        headers = [(b"x-pid", pid), (b"content-type", b"text/event-stream")]
        await send({{"type": "http.response.start", "status": 200, "headers": headers}})
        await send({{"type": "http.response.body", "body": b"begun ", "more_body": True}})
        while (await receive())["type"] != "http.disconnect":
            pass
        note("told")
    else:
        await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-pid", pid)]}})
        if scope["path"] == "/stream":
            await send({{"type": "http.response.body", "body": b"begun ", "more_body": True}})
            while not os.path.exists("end"):
                await asyncio.sleep(0.01)
            note("stream")
        await send({{"type": "http.response.body", "body": b"%d" % VERSION}})
"""


def life(running):
    file = running.folder / "life"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


class Stream:
    """A response that has begun, and ends when it is told to."""

    def __init__(self, running, path="/stream"):
        self.folder = running.folder
        self.connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        self.connection.request("GET", path)
        self.response = self.connection.getresponse()
        assert self.response.read(6) == b"begun "

    def end(self):
        (self.folder / "end").touch()
        return self.response.read()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.connection.close()


@pytest.fixture
def talk():
    """talk(running) -> a WebSocket client."""
    client = pytest.importorskip("websockets.sync.client", reason="the websockets library is needed")
    with contextlib.ExitStack() as stack:
        yield lambda running: stack.enter_context(
            client.connect(f"ws://127.0.0.1:{running.port}/", open_timeout=60)
        )


def said_by(websocket):
    """The worker that answers on the WebSocket."""
    websocket.send(b"who")
    return int(websocket.recv(60))


@pytest.mark.parametrize("options", [(), ("--preload",)])
def test_each_worker_has_a_lifespan(program, options):
    running = program("--workers", "2", *options, code=APP)
    assert eventually(lambda: len(life(running)) == 2)
    workers = {str(pid) for pid in running.children()}
    assert {pid for _, pid in life(running)} == workers
    assert running.get()[2] == "1"
    running.end()
    for worker in workers:
        assert [moment for moment, pid in life(running) if pid == worker] == ["startup", "shutdown"]


def test_stream_and_websocket_survive_a_reload(program, talk):
    running = program("--workers", "1", "-l", "stop_seconds=600", "-l", "stop_notice_seconds=300", code=APP)
    old = running.get()[1]
    websocket = talk(running)
    with Stream(running) as stream:
        assert said_by(websocket) == old
        running.signal(signal.SIGHUP)
        assert eventually(lambda: running.get()[1] != old)
        assert said_by(websocket) == old
        assert ["shutdown", str(old)] not in life(running)
        assert stream.end() == b"1"
    websocket.close()
    assert eventually(lambda: not alive(old))
    assert [moment for moment, pid in life(running) if pid == str(old)] == ["startup", "stream", "shutdown"]
    assert running.said() == ""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
@pytest.mark.parametrize("workers", [(), ("--workers", "1")])
def test_event_stream_and_websocket_end_cleanly_and_clients_come_again(program, talk, number, workers):
    if number == signal.SIGHUP and not workers:
        pytest.skip("one process alone reads its certificates again")
    running = program(*workers, "-l", "stop_seconds=600", "-l", "stop_notice_seconds=0.1", code=APP)
    old = running.get()[1]
    websocket = talk(running)
    with Stream(running, "/events") as stream:
        assert said_by(websocket) == old
        running.signal(number)
        with pytest.raises(Exception, match="1001"):
            websocket.recv(60)
        assert stream.response.read() == b""
        if number == signal.SIGHUP:
            with Stream(running, "/events") as again:
                assert int(again.response.headers["X-Pid"]) != old
                running.signal(signal.SIGTERM)
                assert again.response.read() == b""
    assert eventually(lambda: running.process.poll() == 0)
    assert ["told", str(old)] in life(running) and ["shutdown", str(old)] in life(running)
    assert running.said() == ""


def test_killed_worker_breaks_its_streams_off_and_is_replaced(program, talk):
    running = program("--workers", "1", code=APP)
    old = running.get()[1]
    websocket = talk(running)
    assert said_by(websocket) == old
    with Stream(running) as stream:
        os.kill(old, signal.SIGKILL)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            stream.response.read()
    with pytest.raises(Exception, match="no close frame"):
        websocket.recv(60)
    assert eventually(lambda: running.children() and old not in running.children())
    assert running.get()[1] != old


def test_reload_whose_lifespan_fails_keeps_the_old_worker(program):
    running = program("--workers", "1", code=APP)
    old = running.get()[1]
    (running.folder / "app.py").write_text(APP.format(version=0))
    os.utime(running.folder / "app.py", (5000, 5000))
    running.signal(signal.SIGHUP)
    assert eventually(
        lambda: "the old one keeps serving" in running.said() and "no database here" in running.said()
    )
    assert running.get()[1:] == (old, "1")
    assert ["shutdown", str(old)] not in life(running)


def test_worker_that_has_had_its_requests_ends_its_lifespan(program):
    running = program("--workers", "1", "-l", "worker_requests=5", code=APP)
    first = running.get()[1]
    assert eventually(lambda: running.get()[1] != first)
    assert eventually(lambda: ["shutdown", str(first)] in life(running))
    assert running.said() == ""
