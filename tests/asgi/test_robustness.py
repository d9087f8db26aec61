"""Bytes that come one at a time, clients that vanish, and applications that fail, at every step."""

import struct

import pytest

import syncless
from tests.asgi.test_http import START, echo, http
from tests.asgi.test_websocket import accepted, echoing, speaking
from tests.http.test_websocket import HANDSHAKE, Raw, closed_with, frame
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

POST = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


def send_singly(client, data):
    for at in range(len(data)):
        client.send(data[at : at + 1])
        syncless.sleep(0)


def test_request_byte_by_byte(start):
    client = start.client(start(echo()))
    for _ in range(2):
        send_singly(client, POST)
        assert client.response()[2] == b"abcde"


def test_websocket_byte_by_byte(start):
    client = start.client(start(speaking(echoing)))
    send_singly(client, (HANDSHAKE + "\r\n").encode())
    assert client.response()[0] == 101
    frames = frame(1, "h\u00e9".encode()[:2], fin=False) + frame(9, b"now") + frame(0, "h\u00e9".encode()[2:])
    send_singly(client, frames + frame(8, struct.pack("!H", 1000)))
    expected = b"\x8a\x03now" + b"\x81\x03" + "h\u00e9".encode() + b"\x88\x02\x03\xe8"
    while len(client.buffer) < len(expected):
        assert client._more()
    assert client.buffer == expected
    client.buffer = b""
    assert client.at_end()


def test_client_vanishes_after_each_byte_of_a_request(start):
    server = start(echo())
    for size in range(len(POST)):
        client = start.client(server)
        client.send(POST[:size])
        if size % 3 == 0:
            syncless.sleep(0.001)  # the server has read it
        if size % 2:
            client.sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: by a reset
        client.close()
    assert eventually(lambda: not any(server.census().values()))
    assert start.client(server).get()[0] == 200


def test_client_that_resets_between_two_sends_leaves_no_connection(start):
    async def leave_in_between(scope, receive, send):
        await accepted(receive, send)
        await send({"type": "websocket.send", "bytes": b"sent at the end of the turn"})
        client.sock.setsockopt(1, 13, struct.pack("ii", 1, 0))
        client.close()
        heard.append(await receive())  # once the server has failed to say what is wrong

    heard = []
    server = start(speaking(leave_in_between))
    client = start.client(server)
    client.send((HANDSHAKE + "\r\n").encode() + frame(1, b"\xc3"))  # no UTF-8
    assert eventually(lambda: heard and not any(server.census().values()))
    assert heard[0]["type"] == "websocket.disconnect"


def test_client_vanishes_at_each_step_of_a_websocket(start):
    server = start(speaking(echoing))
    whole = (HANDSHAKE + "\r\n").encode() + frame(2, bytes(300)) + frame(9, b"x") + frame(1, b"y", fin=False)
    for size in range(0, len(whole), 3):
        client = start.client(server)
        client.send(whole[:size])
        if size % 2:
            syncless.sleep(0.001)
        if size % 4 == 0:
            client.sock.setsockopt(1, 13, struct.pack("ii", 1, 0))
        client.close()
    assert eventually(lambda: not any(server.census().values()))
    raw = Raw(start, server)
    raw.send(1, b"still here")
    assert raw.receive() == (1, b"still here")
    raw.send(8, struct.pack("!H", 1000))
    assert closed_with(raw) == 1000


class Mine(Exception):
    pass


BODY = {"type": "http.response.body", "body": b"part", "more_body": True}
STEPS = [START, BODY, BODY, {"type": "http.response.body", "body": b"end"}]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("steps", range(5))
def test_application_that_raises_after_some_steps(start, errors, steps, waits):
    async def answer(scope, receive, send):
        await receive()
        for message in STEPS[:steps]:
            await send(message)
            if waits:
                syncless.sleep(0.001)
        raise Mine

    client = start.client(start(http(answer), error_log=errors))
    status, _, body = client.get()
    if steps < 2:  # nothing has been sent
        assert status == 500
    elif steps < 4:
        assert status == 200 and body is None  # cut short
    else:
        assert body == b"partpartend"
    assert eventually(lambda: "Mine" in errors.getvalue())


@pytest.mark.parametrize("steps", range(4))
def test_application_that_raises_after_some_steps_of_a_websocket(start, errors, steps):
    messages = [
        {"type": "websocket.accept"},
        {"type": "websocket.send", "text": "one"},
        {"type": "websocket.close", "code": 4000},
    ]

    async def speak(scope, receive, send):
        await receive()
        for message in messages[:steps]:
            await send(message)
        raise Mine

    raw = Raw(start, start(speaking(speak), error_log=errors))
    if steps == 0:
        assert raw.status == 500
    else:
        if steps > 1:
            assert raw.receive() == (1, b"one")
        code = 4000 if steps == 3 else 1011
        assert raw.receive() == (8, struct.pack("!H", code))
        raw.send(8, struct.pack("!H", code))
    assert eventually(lambda: "Mine" in errors.getvalue())


@pytest.mark.virtual_time(False)  # the kernel waits, too, until a window opens
def test_tiny_buffers_hold_up_both_sides(start):
    """The body comes back while the client still sends it. The socket has the smallest buffers."""

    async def answer(scope, receive, send):
        await send(START)
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send({"type": "http.response.body", "body": message["body"], "more_body": more})

    server = start(http(answer))
    client = start.client(server)
    client.sock.setsockopt(1, 8, 1)  # SO_RCVBUF
    client.sock.setsockopt(1, 7, 1)  # SO_SNDBUF
    body = bytes(range(250)) * 400

    def give():
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    giving = syncless.spawn(give)
    assert client.response()[2] == body
    giving.join()
