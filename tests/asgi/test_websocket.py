"""WebSockets for ASGI applications."""

import asyncio
import socket
import struct
import sys

import pytest

import syncless
from tests.http.test_websocket import HANDSHAKE, Raw, closed_with, echo, frame
from tests.plugin import Client
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time
client_library = pytest.importorskip(
    "websockets.sync.client", reason="the websockets library is needed: pip install websockets"
)


def speaking(speak):
    async def app(scope, receive, send):
        if scope["type"] != "websocket":
            raise NotImplementedError(scope["type"])
        await speak(scope, receive, send)

    return app


async def accepted(receive, send, **more):
    assert await receive() == {"type": "websocket.connect"}
    await send({"type": "websocket.accept", **more})


async def echoing(scope, receive, send):
    await accepted(receive, send)
    while (message := await receive())["type"] == "websocket.receive":
        message = dict(message, type="websocket.send")
        await send(message)


def test_echo(start):
    raw = Raw(start, start(speaking(echoing)))
    assert raw.status == 101
    for opcode, payload in [(1, "h\u00e9llo".encode()), (2, b"\0\xff"), (2, bytes(100000)), (1, b"")]:
        raw.send(opcode, payload)
        assert raw.receive() == (opcode, payload)
    raw.send(9, b"are you there")
    assert raw.receive() == (10, b"are you there")
    raw.send(8, struct.pack("!H", 1000))
    assert closed_with(raw) == 1000 and raw.client.at_end()


def test_messages_sent_at_once_are_answered_in_order(start):
    raw = Raw(start, start(speaking(echoing)))
    messages = [b"%d" % i for i in range(200)]
    raw.client.send(b"".join(frame(1, message) for message in messages) + frame(8, struct.pack("!H", 1000)))
    assert [raw.receive()[1] for _ in messages] == messages
    assert closed_with(raw) == 1000


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_every_split_of_the_frames(start, step):
    """The loop takes whole messages, and the request's tasklet the rest, each where the other has ended."""
    frames = [
        (1, b"a"),
        (9, b"p"),
        (1, b"b"),
        (1, b"c", False),
        (10, b""),
        (0, b"d"),
        (2, bytes(300)),
        (1, b"e"),
    ]
    data = b"".join(frame(*parts) for parts in frames * 2) + frame(8, struct.pack("!H", 1000))
    raw = Raw(start, start(speaking(echoing)))
    for at in range(0, len(data), step):
        raw.client.send(data[at : at + step])
        syncless.sleep(0)
    received = [raw.receive() for _ in range(12)]
    assert [said for said in received if said[0] != 10] == [
        *((1, b"a"), (1, b"b"), (1, b"cd"), (2, bytes(300)), (1, b"e"))
    ] * 2
    assert received.count((10, b"p")) == 2
    assert closed_with(raw) == 1000


def test_messages_that_come_whole_wake_the_application_alone(start):
    raw = Raw(start, start(speaking(echoing)))
    raw.send(1, b"first")
    assert raw.receive() == (1, b"first")
    (request,) = [one for one in syncless.tasklets() if str(one.name).endswith("/ws")]
    turns = request.switches
    for number in range(10):
        raw.send(1, b"%d" % number)
        assert raw.receive() == (1, b"%d" % number)
    assert request.switches == turns
    raw.send(9, b"")
    assert raw.receive() == (10, b"")
    assert request.switches > turns
    raw.client.close()


def test_silent_clients_are_pinged_and_then_closed(start):
    raw = Raw(start, start(speaking(echoing), ping_seconds=0.3))
    for _ in range(3):
        syncless.sleep(0.2)
        raw.send(1, b"not silent")
        assert raw.receive() == (1, b"not silent")
    for _ in range(2):
        assert raw.receive() == (9, b"")
        raw.send(10)
    assert raw.receive() == (9, b"")
    assert raw.client.at_end()  # it has not answered


def test_client_that_is_found_gone_while_sending_is_told(start):
    seen = []

    async def speak(scope, receive, send):
        await accepted(receive, send)
        messages = asyncio.create_task(receive())
        while not messages.done():
            await send({"type": "websocket.send", "text": "tick"})
            await asyncio.sleep(0.1)
        seen.append(await messages)

    raw = Raw(start, start(speaking(speak)))
    raw.client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.client.close()  # a reset
    assert eventually(lambda: seen == [{"type": "websocket.disconnect", "code": 1006, "reason": ""}])


def test_scope(start):
    seen = []

    async def speak(scope, receive, send):
        seen.append(scope)
        await accepted(receive, send, subprotocol="b", headers=[(b"x-own", b"1")])

    raw = Raw(start, start(speaking(speak)), "Sec-WebSocket-Protocol: a, b\r\n")
    assert raw.headers["sec-websocket-protocol"] == "b" and raw.headers["x-own"] == "1"
    assert closed_with(raw) == 1000
    scope = seen[0]
    assert scope["type"] == "websocket" and scope["scheme"] == "ws" and "method" not in scope
    assert scope["path"] == "/ws" and scope["subprotocols"] == ["a", "b"]
    assert sorted(scope["extensions"]) == ["syncless.hold", "syncless.stopping", "websocket.http.response"]


def test_client_that_closes_is_told(start):
    seen = []

    async def speak(scope, receive, send):
        await accepted(receive, send)
        seen.extend([await receive(), await receive()])
        with pytest.raises(OSError, match="closed"):
            await send({"type": "websocket.send", "text": "late"})

    raw = Raw(start, start(speaking(speak)))
    raw.send(8, struct.pack("!H", 4001) + b"bye")
    assert eventually(lambda: len(seen) == 2)
    assert seen == [{"type": "websocket.disconnect", "code": 4001, "reason": "bye"}] * 2


def test_client_that_leaves_without_a_word_is_told(start):
    seen = []

    async def speak(scope, receive, send):
        await accepted(receive, send)
        seen.append(await receive())

    raw = Raw(start, start(speaking(speak)))
    raw.client.close()
    assert eventually(lambda: seen)
    assert seen[0]["code"] == 1006


@pytest.mark.parametrize("waits", [False, True])
def test_application_that_closes(start, waits):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        if waits:
            await asyncio.sleep(0.01)
        await send({"type": "websocket.close", "code": 4002, "reason": "enough"})
        assert (await receive())["type"] == "websocket.disconnect"

    raw = Raw(start, start(speaking(speak)))
    assert raw.receive() == (8, struct.pack("!H", 4002) + b"enough")


def test_application_that_returns_closes(start):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        await asyncio.sleep(0.01)

    assert closed_with(Raw(start, start(speaking(speak)))) == 1000


def closes_by_wsgi(environ, start_response):
    websocket = environ["wsgi.websocket"]
    websocket.accept()
    how = environ["QUERY_STRING"]
    if how == "close":
        websocket.close(4000)
    elif how == "elsewhere":  # this tasklet receives, and another one closes
        syncless.spawn(websocket.close, 4000)
        assert websocket.receive() is None
    else:
        assert how == "return"
    return []


async def closes_by_asgi(scope, receive, send):
    await accepted(receive, send)
    how = scope["query_string"]
    if how == b"close":
        await send({"type": "websocket.close", "code": 4000})
    elif how == b"elsewhere":
        closing = asyncio.ensure_future(send({"type": "websocket.close", "code": 4000}))
        assert (await receive())["type"] == "websocket.disconnect"
        await closing
    else:
        assert how == b"return"


BOTH = pytest.mark.parametrize("app", [closes_by_wsgi, speaking(closes_by_asgi)], ids=["wsgi", "asgi"])


@BOTH
@pytest.mark.parametrize(("how", "code"), [("close", 4000), ("elsewhere", 4000), ("return", 1000)])
def test_connection_stays_until_its_client_has_closed_too(start, app, how, code):
    """Else it would be reset under a client that sends, which may lose the code by that."""
    server = start(app)
    raw = Raw(start, server, path=f"/ws?{how}")
    assert closed_with(raw) == code
    for _ in range(3):
        syncless.sleep(1)
        raw.send(1, b"on its way already")
    assert server.census()["connections"] == 1
    raw.send(8, struct.pack("!H", code))
    assert raw.client.at_end() and not raw.client.reset
    assert eventually(lambda: server.census()["connections"] == 0)


@BOTH
def test_client_that_does_not_close_is_left_after_a_time(start, app, errors):
    server = start(app, error_log=errors)
    raw = Raw(start, server, path="/ws?close")
    assert closed_with(raw) == 4000
    assert raw.client.at_end() and not raw.client.reset
    assert eventually(lambda: server.census()["connections"] == 0)
    assert errors.getvalue() == ""


@BOTH
def test_stopping_server_waits_for_no_close_frame_beyond_its_time(start, app, errors):
    server = start(app, error_log=errors)
    raw = Raw(start, server, path="/ws?return")
    assert closed_with(raw) == 1000
    server.stop(0.01)
    assert raw.client.at_end() and errors.getvalue() == ""


@pytest.mark.parametrize("app", [echo, speaking(echoing)], ids=["wsgi", "asgi"])
def test_client_that_breaks_the_protocol_may_send_on(start, app):
    server = start(app)
    raw = Raw(start, server)
    raw.client.send(frame(1, b"unmasked", masked=False))
    assert closed_with(raw) == 1002
    for _ in range(3):
        syncless.sleep(1)
        raw.send(1, b"on its way already")
    assert server.census()["connections"] == 1
    assert raw.client.at_end() and not raw.client.reset
    raw.client.close()
    assert eventually(lambda: server.census()["connections"] == 0)


def test_application_that_raises_closes_with_1011(start, errors):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        await receive()
        raise ValueError("mine")

    raw = Raw(start, start(speaking(speak), error_log=errors))
    raw.send(1, b"x")
    assert closed_with(raw) == 1011
    assert "ValueError: mine" in errors.getvalue()


@pytest.mark.parametrize("waits", [False, True])
def test_refusal_is_a_403(start, waits):
    async def speak(scope, receive, send):
        if waits:
            await asyncio.sleep(0.01)
        await send({"type": "websocket.close"})

    assert Raw(start, start(speaking(speak))).status == 403


def test_denial_response(start):
    async def speak(scope, receive, send):
        await receive()
        await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-why", b"you")]})
        await send({"type": "websocket.http.response.body", "body": b"not ", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b"you"})

    client = start.client(start(speaking(speak)))
    client.send((HANDSHAKE + "\r\n").encode())
    status, headers, body = client.response()
    assert (status, headers["x-why"], body) == (401, "you", b"not you") and client.at_end()


def test_neither_accepted_nor_refused_is_told(start, errors):
    async def speak(scope, receive, send):
        await receive()

    assert Raw(start, start(speaking(speak), error_log=errors)).status == 500
    assert "without websocket.accept" in errors.getvalue()


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"type": "websocket.send", "text": "early"}, "not accepted"),
        ({"type": "http.response.start", "status": 200}, "http.response.start"),
        ({"type": "websocket.accept", "headers": [(b"Sec-WebSocket-Protocol", b"x")]}, "'subprotocol'"),
        ({"type": "websocket.accept", "subprotocol": "other"}, "did not offer"),
    ],
)
def test_wrong_messages_are_told(start, errors, message, told):
    async def speak(scope, receive, send):
        await send(message)

    assert Raw(start, start(speaking(speak), error_log=errors)).status == 500
    assert told in errors.getvalue()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("Version: 13", "Version: 12"), 426),
        (("Sec-WebSocket-Version: 13\r\n", ""), 426),
        (("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        (("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), 400),
        (("Connection: Upgrade", "Connection: close"), 400),
    ],
)
def test_malformed_handshake_does_not_reach_the_application(start, errors, change, status):
    called = []

    async def speak(scope, receive, send):
        called.append(scope)

    client = start.client(start(speaking(speak), error_log=errors))
    client.send((HANDSHAKE.replace(*change) + "\r\n").encode())
    found, headers, _ = client.response()
    assert (found, called, errors.getvalue()) == (status, [], "")
    if status == 426:
        assert headers["sec-websocket-version"] == "13"
        assert (headers["upgrade"], headers["connection"]) == ("websocket", "Upgrade")


@pytest.mark.parametrize("change", [("GET /ws", "POST /ws"), ("HTTP/1.1\r\n", "HTTP/1.0\r\n")])
def test_request_that_cannot_be_a_handshake_is_ordinary(start, errors, change):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            raise NotImplementedError(f"no {scope['method']}")

    client = start.client(start(app, error_log=errors))
    client.send((HANDSHAKE.replace(*change) + "\r\n").encode())
    assert client.response()[0] == 500
    method = change[1].partition(" ")[0] if " " in change[1] else "GET"
    assert f"Error in {method} /ws:" in errors.getvalue() and f"no {method}" in errors.getvalue()


def test_without_the_library_a_handshake_is_ordinary_and_the_log_says_once_what_to_install(
    start, errors, monkeypatch
):
    monkeypatch.setattr("syncless.http.websocket.websocket.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "simple_websocket", raising=False)

    async def app(scope, receive, send):
        assert scope["type"] == "http" and scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    server = start({"/": app, "/ws": app}, lifespan="off", error_log=errors, bind=["127.0.0.1:0"] * 2)
    for address in server.addresses:
        for path in ("/", "/ws"):
            client = Client(address)
            for _ in range(2):
                client.send((HANDSHAKE.replace("/ws", path) + "\r\n").encode())
                status, _, body = client.response()
                assert (status, body) == (200, path.encode())
            client.close()
    assert errors.getvalue().count("pip install 'syncless[websocket]'") == 1


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (frame(3, b"reserved opcode"), 1002),
        (frame(1, b"unmasked", masked=False), 1002),
        (frame(0, b"continues nothing"), 1002),
        (frame(1, b"\xff"), 1007),
        (frame(2, bytes(1001)), 1009),
    ],
    ids=["opcode", "mask", "continuation", "text", "size"],
)
def test_messages_before_a_breach_of_the_protocol_are_answered(start, broken, code):
    raw = Raw(start, start(speaking(echoing), websocket_bytes=1000))
    raw.client.send(frame(1, b"before") + broken + frame(1, b"after"))
    assert raw.receive() == (1, b"before")
    assert closed_with(raw) == code
    assert raw.client.at_end()


def test_text_that_is_no_utf8_is_refused_amid_its_frame(start):
    """RFC 6455, 8.1; cases 6.4.3 and 6.4.4 of Autobahn|Testsuite."""
    raw = Raw(start, start(speaking(echoing)))
    raw.client.send(frame(1, b"good \xf4\x90" + bytes(300))[:-300])
    assert closed_with(raw) == 1007 and raw.client.at_end()


def test_message_that_is_too_large(start):
    raw = Raw(start, start(speaking(echoing), websocket_bytes=10))
    raw.send(2, bytes(11))
    assert closed_with(raw) == 1009


def test_client_that_does_not_read_holds_up_send(start):
    sent = []

    async def speak(scope, receive, send):
        await accepted(receive, send)
        for i in range(300):
            await send({"type": "websocket.send", "bytes": bytes(100000)})
            sent.append(i)

    raw = Raw(start, start(speaking(speak)))
    syncless.sleep(1)
    assert 0 < len(sent) < 200
    raw.client.close()


def test_application_that_does_not_receive_holds_up_its_client(start):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        await asyncio.sleep(1)
        for _ in range(300):
            assert len((await receive())["bytes"]) == 100000
        await send({"type": "websocket.send", "text": "done"})

    raw = Raw(start, start(speaking(speak)))
    messages = [frame(2, bytes(100000))] * 300

    def give():
        for message in messages:
            raw.client.send(message)

    giving = syncless.spawn(give)
    assert not giving.join(0.5)
    assert raw.receive() == (1, b"done")
    giving.join()


def test_cancelled_receive_loses_no_message(start):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        got = []
        while len(got) < 3:
            try:
                got.append((await asyncio.wait_for(receive(), 0.01))["text"])
            except asyncio.TimeoutError:
                pass
        await send({"type": "websocket.send", "text": ",".join(got)})

    raw = Raw(start, start(speaking(speak)))
    for text in (b"a", b"b", b"c"):
        syncless.sleep(0.035)
        raw.send(1, text)
    assert raw.receive() == (1, b"a,b,c")


def test_blocking_call_holds_up_its_own_websocket_only(start):
    async def speak(scope, receive, send):
        await accepted(receive, send)
        message = await receive()
        syncless.sleep(float(message["text"]))
        await send({"type": "websocket.send", "text": "done"})

    server = start(speaking(speak))
    slow, quick = Raw(start, server), Raw(start, server)
    slow.send(1, b"5")
    quick.send(1, b"0")
    assert quick.receive() == (1, b"done")
    assert slow.receive() == (1, b"done")


def test_stop_closes_with_1001(start):
    server = start(speaking(echoing))
    raw = Raw(start, server)
    server.stop(0.1)
    assert closed_with(raw) == 1001


def test_deflate_with_a_real_client(start):
    url = start(speaking(echoing)).url.replace("http", "ws")

    def talk():
        with client_library.connect(url, compression="deflate") as connection:
            assert connection.protocol.extensions
            for message in ("text" * 1000, b"\0" * 100000, "x"):
                connection.send(message)
                assert connection.recv() == message

    syncless.run_in_thread(talk)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_return_without_an_answer_is_an_error_while_the_client_is_there(start, errors, leaves, waits):
    began, ended = [], []

    async def speak(scope, receive, send):
        began.append(await receive())
        if leaves:
            assert (await receive())["type"] == "websocket.disconnect"
        if waits:
            await asyncio.sleep(0.01)
        ended.append(scope)

    server = start(speaking(speak), error_log=errors)
    client = start.client(server)
    client.send(f"{HANDSHAKE}\r\n".encode())
    assert eventually(lambda: began)
    if leaves:
        client.close()
    else:
        assert client.response()[0] == 500
    assert eventually(lambda: ended and not server.census()["active"])
    assert ("returned without websocket.accept" in errors.getvalue()) is not leaves
