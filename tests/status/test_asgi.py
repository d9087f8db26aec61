"""Requests of ASGI applications on the status page: where they wait, and for what."""

import http.client

import pytest

from tests.waiting import eventually

APP = """
import asyncio, time

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    path = scope["path"]
    if path == "/awaits":
        await outer()
    elif path == "/blocks":
        time.sleep(600)
    elif path == "/blocks-later":
        await asyncio.sleep(0)
        await blocking()
    elif path == "/receives":
        await receive()
        await receive()

async def outer():
    await asyncio.Queue().get()

async def blocking():
    time.sleep(600)
"""

PLACES = {
    "/awaits": ("Queue.get", "app.py:20 in outer"),
    "/blocks": ("sleep", "app.py:11 in app"),
    "/blocks-later": ("sleep", "app.py:23 in blocking"),
    "/receives": ("ASGI application", "app.py:17 in app"),
}


@pytest.mark.parametrize("workers", ["0", "1"])
def test_requests_in_flight_are_shown_with_what_they_wait_for(seen, workers):
    running = seen("--workers", workers, "-l", "stop_seconds=0.1", code=APP)
    clients = [http.client.HTTPConnection("127.0.0.1", running.port, timeout=60) for _ in PLACES]
    for client, path in zip(clients, PLACES, strict=True):
        client.request("GET", path)

    def places():
        shown = [one for worker in running.status()["workers"] for one in worker["requests"]]
        return {one["path"]: (one["waits_for"], str(one["where"]).rpartition("/")[2]) for one in shown}

    assert eventually(lambda: places() == PLACES), places()
    for client in clients:
        client.close()
