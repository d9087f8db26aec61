"""The phases of a connection: real traffic takes each way of the table, and debug builds count it."""

import socket
import struct

import pytest

import syncless
from syncless.http import phases
from tests.waiting import eventually

GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"


def take_every_way(start):
    held, going = syncless.Event(), syncless.Event()

    def app(environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/hold":
            held.set()
            going.wait(15)
        start_response("200 OK", [])
        return [b"x" * (20_000_000 if path == "/large" else 10)]

    server = start(app, requests=1, queue_seconds=0.2)
    holding = start.client(server)
    holding.send(GET % b"/hold")
    held.wait(15)
    late = start.client(server)
    late.send(GET % b"/late")
    assert late.response()[0] == 503  # reading -> queued -> reading
    next_one = start.client(server)
    next_one.send(GET % b"/next")
    assert eventually(lambda: server.census()["queued"] == 1)
    going.set()
    assert next_one.response()[0] == 200  # queued -> running -> reading

    wrong = start.client(server)
    wrong.send(b"nonsense\r\n\r\n" + b"x" * 100_000)
    assert wrong.response()[0] == 400  # reading -> lingering
    wrong.close()  # lingering -> closed

    held.clear(), going.clear()
    server = start(app)
    reset = start.client(server)
    reset.send(GET % b"/large" + GET % b"/hold")
    syncless.sleep(0)
    assert held.wait(15) or server.requests < 2
    reset.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()  # while a response is stalled
    assert eventually(lambda: server.census()["connections"] == 0 or not held.is_set())
    going.set()

    server = start(app, client_connections=1)
    first = start.client(server)
    first.send(GET % b"/")
    assert first.response()[0] == 200
    assert start.client(server).response() is None  # greeting -> closed


@pytest.mark.skipif(not phases.is_checked(), reason="only debug builds count transitions")
def test_traffic_takes_every_way_of_the_table(start):
    take_every_way(start)
    rare = {("running", "closed")}  # see tests/wsgi/test_client_limits.py
    ways = {(old, new) for old, following in phases.FOLLOWS.items() for new in following}
    missing = {way for way in ways - rare if not phases.times_taken(*way)}
    assert not missing
