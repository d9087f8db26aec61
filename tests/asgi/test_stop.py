"""A server stops while applications stream: they are told, and end what they send."""

import asyncio
import struct

import pytest

import syncless
from tests.asgi.test_http import START, http, saying
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

EVENTS = {**START, "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]}
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def streaming(heard, start=EVENTS, first=b"data: 1\n\n"):
    """Streams until it hears http.disconnect, and then returns."""

    async def answer(scope, receive, send):
        await send(start)
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        heard.append("begun")
        while (message := await receive())["type"] == "http.request":
            pass
        heard.append(message["type"])

    return http(answer)


def begun(client, heard, request=GET, number=1):
    client.send(request)
    assert eventually(lambda: heard.count("begun") == number)


def stopped(start, application, heard, **options):
    """The client of a server that was stopped after the application had begun."""
    server = start(application, **options)
    client = start.client(server)
    begun(client, heard)
    server.stop()
    return client


@pytest.mark.parametrize("first", [b"data: 1\n\n", b""])
def test_event_stream_ends_cleanly_in_time(start, errors, first):
    heard = []
    limits = {"stop_seconds": 3600, "stop_notice_seconds": 0.1}
    client = stopped(start, streaming(heard, first=first), heard, error_log=errors, **limits)
    assert client.response()[2] == first and client.at_end()
    assert heard == ["begun", "http.disconnect"] and errors.getvalue() == ""


def test_event_stream_that_waits_for_the_rest_of_a_body_is_told(start, errors):
    heard = []
    server = start(streaming(heard), error_log=errors, stop_seconds=3600, stop_notice_seconds=0.1)
    client = start.client(server)
    begun(client, heard, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
    server.stop()
    assert client.response()[2] == b"data: 1\n\n"
    assert heard == ["begun", "http.disconnect"] and errors.getvalue() == ""


def test_other_stream_that_is_not_ended_is_cut_off(start, errors):
    """It must not look like a whole one."""
    heard = []
    limits = {"stop_seconds": 20, "stop_notice_seconds": 0.1}
    client = stopped(start, streaming(heard, START, b"x"), heard, error_log=errors, **limits)
    assert client.response()[2] is None
    assert heard == ["begun", "http.disconnect"] and "more_body" in errors.getvalue()


@pytest.mark.parametrize(
    "begin",
    [None, {**START, "headers": [(b"content-length", b"2")]}, START],
    ids=["response not begun", "length known", "no event stream"],
)
def test_response_that_has_an_end_is_not_disturbed(start, begin):
    heard = []

    async def answer(scope, receive, send):
        if begin is not None:
            await send(begin)
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await receive()
        heard.append("begun")
        listening = asyncio.ensure_future(receive())
        await asyncio.sleep(10)
        heard.append(listening.done())
        if begin is None:
            await send(START)
        await send({"type": "http.response.body", "body": b"b"})
        await listening

    client = stopped(start, http(answer), heard, stop_seconds=20, stop_notice_seconds=0.1)
    assert client.response()[2] == (b"b" if begin is None else b"ab")
    assert heard == ["begun", False]


def test_event_of_the_scope_tells_at_once(start):
    heard = []

    async def answer(scope, receive, send):
        stopping = scope["extensions"]["syncless.stopping"]["event"]
        assert not stopping.is_set()
        await send(START)
        heard.append("begun")
        await stopping.wait()
        await send({"type": "http.response.body", "body": b"goodbye"})

    client = stopped(start, http(answer), heard, stop_seconds=3600, stop_notice_seconds=3600)
    assert client.response()[2] == b"goodbye"


def test_stream_that_begins_later_is_told_too(start):
    """A proxy sends it on a connection that it keeps."""
    heard = []
    server = start(streaming(heard), stop_seconds=3600, stop_notice_seconds=0.1, stop_idle_seconds=3600)
    client = start.client(server)
    begun(client, heard)
    stopping = syncless.spawn(server.stop)
    assert client.response()[1].get("connection") is None
    client.send(GET)
    status, headers, body = client.response()
    assert (status, headers["connection"], body) == (200, "close", b"data: 1\n\n")
    stopping.join()


def test_notice_leaves_half_of_the_time_to_the_application(start):
    heard = []
    client = stopped(start, streaming(heard), heard, stop_seconds=2, stop_notice_seconds=3600)
    assert client.response()[2] == b"data: 1\n\n"


def test_stream_that_takes_no_notice_is_cut_off(start):
    heard = []

    async def answer(scope, receive, send):
        await send(EVENTS)
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        heard.append("begun")
        await asyncio.sleep(3600)

    client = stopped(start, http(answer), heard, stop_seconds=1)
    assert client.response()[2] is None


def test_websocket_is_closed_and_its_application_has_time_left(start):
    pytest.importorskip("websockets", reason="the websockets library is needed: pip install websockets")
    from tests.asgi.test_websocket import accepted, speaking
    from tests.http.test_websocket import Raw, closed_with

    heard = []

    async def speak(scope, receive, send):
        await accepted(receive, send)
        event = scope["extensions"]["syncless.stopping"]["event"]
        heard.append("begun")
        await event.wait()
        await send({"type": "websocket.send", "text": "goodbye"})
        heard.append(await receive())
        await asyncio.sleep(10)  # it puts things in order
        heard.append("ended")

    server = start(speaking(speak), stop_seconds=3600, stop_notice_seconds=0.1)
    raw = Raw(start, server)
    assert eventually(lambda: heard)
    stopping = syncless.spawn(server.stop)
    assert raw.receive() == (1, b"goodbye")
    assert closed_with(raw) == 1001
    raw.send(8, struct.pack("!H", 1001))
    stopping.join()
    assert heard == [
        "begun",
        {"type": "websocket.disconnect", "code": 1001, "reason": "the server stops"},
        "ended",
    ]


def test_server_that_starts_again_has_not_stopped(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append(scope["extensions"]["syncless.stopping"]["event"].is_set())
        await saying()(scope, receive, send)

    server = start(http(answer))
    start.client(server).get()
    server.stop()
    server.start()
    start.client(server).get()
    assert seen == [False, False]
