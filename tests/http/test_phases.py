"""The phases of a connection: real traffic takes each way of the table, and debug builds count it."""

import importlib.util
import socket
import struct

import pytest

import syncless
from syncless.http import connection as phases
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

HTTP_2 = importlib.util.find_spec("syncless.http.http2.session") is not None
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # with its SETTINGS
GOAWAY = b"\0\0\x08\7\0\0\0\0\0" + bytes(8)
GET_LEAVE = b"\0\0\x0d\1\5\0\0\0\1" + b"\x82\x86\x41\1a\4\6/leave"  # HEADERS, without Huffman's code
GET = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"


def take_every_way(start):
    held, going = syncless.Event(), syncless.Event()

    def app(environ, start_response):
        path = environ["PATH_INFO"]
        if path == "/hold":
            held.set()
            going.wait(15)
        start_response("200 OK", [])
        return [b"x"]

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

    server = start(app, trusted="127.0.0.1", proxy_protocol=True)
    announced = start.client(server)
    announced.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + GET % b"/")
    assert announced.response()[0] == 200  # greeting -> reading
    silent = start.client(server)
    silent.send(b"no header\r\n")
    assert silent.response() is None  # greeting -> closed
    announced.close()  # reading -> closed

    leaving = {}  # protocol -> client

    def leave(environ, start_response):
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/leave":
            client = leaving[environ["SERVER_PROTOCOL"]]
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            if environ["SERVER_PROTOCOL"] == "HTTP/1.1":  # the answer before it is not sent yet
                syncless.sleep(0.01)
        return [b"x"]

    server = start(leave, http2="cleartext" if HTTP_2 else "off")
    leaving["HTTP/1.1"] = start.client(server)
    leaving["HTTP/1.1"].send(GET % b"/" + GET % b"/leave")  # running -> closed
    if HTTP_2:
        start.client(server).send(PREFACE + GOAWAY)  # reading -> carrying -> reading
        leaving["HTTP/2.0"] = start.client(server)
        leaving["HTTP/2.0"].send(PREFACE + GET_LEAVE)  # carrying -> closed


@pytest.mark.skipif(not phases.is_checked(), reason="only debug builds count transitions")
def test_traffic_takes_every_way_of_the_table(start):
    take_every_way(start)
    ways = {(old, new) for old, following in phases.FOLLOWS.items() for new in following}
    if not HTTP_2:
        ways = {way for way in ways if "carrying" not in way}
    assert eventually(lambda: not {way for way in ways if not phases.times_taken(*way)}), [
        way for way in ways if not phases.times_taken(*way)
    ]
