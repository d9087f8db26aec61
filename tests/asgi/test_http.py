"""HTTP for ASGI applications: scope, receive(), send(), and what goes wrong."""

import asyncio
import contextvars
import io
import os
import ssl
import threading
import time
import urllib.request
from collections import OrderedDict

import pytest

import syncless
from syncless.apps.asgi.exchange import ScopeRequest
from syncless.asyncio import in_tasklet
from tests.plugin import Client
from tests.virtualtime import real_time
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


def http(answer):
    """An application that answers HTTP by `answer` and has no lifespan."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        await answer(scope, receive, send)

    return app


def saying(body=b"hello", start=START):
    async def answer(scope, receive, send):
        await send(start)
        await send({"type": "http.response.body", "body": body})

    return http(answer)


async def whole_body(receive):
    body = b""
    while True:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        if not message["more_body"]:
            return body


def test_hello(start):
    client = start.client(start(saying()))
    for _ in range(3):
        status, headers, body = client.get()
        assert (status, body, headers["content-length"]) == (200, b"hello", "5")
        assert headers["content-type"] == "text/plain" and "date" in headers


def test_answer_that_never_waits_takes_no_turn_of_the_loop(start, background):
    calls = []
    background.call_soon = lambda *args, **kwargs: (
        calls.append(args) or type(background).call_soon(background, *args, **kwargs)
    )
    client = start.client(start(saying()))
    client.get()
    calls.clear()
    client.get()
    assert calls == []


def test_scope(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append(scope)
        await send(START)
        await send({"type": "http.response.body"})

    server = start(http(answer))
    client = start.client(server)
    for _ in range(3):  # remembered, and made anew
        fields = "X-Own: 1\r\nAccept: a\r\nAccept: b\r\nX-Forwarded-For: 1.1.1.1\r\n"
        client.get("/caf%C3%A9%20x/?a=%20b", fields)
        scope = seen.pop()
        assert scope["asgi"] == {"version": "3.0", "spec_version": "2.4"}
        assert scope["type"] == "http" and scope["http_version"] == "1.1" and scope["method"] == "GET"
        assert scope["scheme"] == "http" and scope["root_path"] == ""
        assert scope["path"] == "/café x/" and scope["raw_path"] == b"/caf%C3%A9%20x/"
        assert scope["query_string"] == b"a=%20b"
        assert scope["headers"][:2] == [(b"host", b"test"), (b"x-own", b"1")]
        assert scope["headers"][2:] == [(b"accept", b"a"), (b"accept", b"b")]
        assert scope["client"] == client.sock.getsockname() and scope["server"] == server.address
        scope["headers"].clear()  # belongs to this request
        scope["extensions"]["mine"] = scope["path"] = 1


def test_scope_of_http_1_0_and_of_unusual_methods(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append((scope["http_version"], scope["method"], scope["path"]))
        await send(START)
        await send({"type": "http.response.body"})

    client = start.client(start(http(answer)))
    client.send(b"PROPFIND http://other/x HTTP/1.1\r\nHost: other\r\n\r\n")
    client.response()
    client.send(b"GET /%ff HTTP/1.0\r\n\r\n")
    client.response()
    assert seen == [("1.1", "PROPFIND", "/x"), ("1.0", "GET", "/\ufffd")]


def test_scope_behind_a_trusted_proxy(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append(scope)
        await send(START)
        await send({"type": "http.response.body"})

    server = start(http(answer), trusted="127.0.0.1", trusted_fields=("x-forwarded-for", "x-forwarded-proto"))
    fields = "X-Forwarded-For: 10.0.0.1, 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n"
    start.client(server).get("/", fields)
    assert seen[0]["client"] == ("192.0.2.7", 0) and seen[0]["scheme"] == "https"
    names = [name for name, _ in seen[0]["headers"]]
    assert b"x-forwarded-for" in names and b"x-forwarded-host" not in names


TYPES = {
    "type": str,
    "http_version": str,
    "method": str,
    "scheme": str,
    "path": str,
    "raw_path": bytes,
    "query_string": bytes,
    "root_path": str,
}


@pytest.mark.parametrize("proxied", [False, True])
def test_scope_is_that_of_the_specification_on_each_kind_of_listener(start, tmp_path, proxied):
    """And so are the variables that hooks and the access log see of it."""
    seen = []

    async def answer(scope, receive, send):
        seen.append(scope)
        await send(START)
        await send({"type": "http.response.body"})

    server = start(
        http(answer),
        bind=["127.0.0.1:0", f"unix:{tmp_path}/s"],
        trusted=("127.0.0.1", "unix"),
        trusted_fields=("x-forwarded-for", "x-forwarded-proto"),
    )
    fields = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n" if proxied else ""
    for address in server.addresses:
        client = Client(address)
        for _ in range(3):
            assert client.get("/a", fields)[0] == 200
            scope = seen.pop()
            variables = ScopeRequest(scope).variables()
            assert {key: type(scope[key]) for key in TYPES} == TYPES
            assert all(type(part) is bytes for field in scope["headers"] for part in field)
            host, port = scope["server"]
            unix = isinstance(address, str)
            assert (host, port) == ((address, None) if unix else address)
            assert scope["client"] is None or [type(part) for part in scope["client"]] == [str, int]
            assert variables["SERVER_NAME"] == ("localhost" if unix else "127.0.0.1")
            assert variables["SERVER_PORT"] == (str(port) if port else "443" if proxied else "80")
            assert variables["REMOTE_PORT"] == ("" if proxied or unix else str(scope["client"][1]))
            assert all(type(value) is str for value in variables.values())
        client.close()


def test_forwarding_fields_of_a_stranger_are_not_told(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append(scope)
        await saying()(scope, receive, send)

    fields = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Prefix: /evil\r\nX-Real-Ip: 192.0.2.7\r\nX-Own: 1\r\n"
    start.client(start(http(answer))).get("/", fields)
    names = [name for name, _ in seen[0]["headers"]]
    assert b"x-own" in names and not [name for name in names if name.startswith(b"x-forwarded")]
    assert seen[0]["client"][0] == "127.0.0.1"


def test_kept_receive_hears_nothing_of_the_next_request(start):
    kept, told = [], []

    async def answer(scope, receive, send):
        kept.append((receive, send))
        told.append((await kept[0][0]())["type"])
        if len(kept) > 1:
            await kept[0][1]({"type": "http.response.start", "status": 500})
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    assert [client.get()[0] for _ in range(2)] == [200, 200]
    assert told == ["http.request", "http.disconnect"]


def test_operation_is_awaited_once(start):
    async def answer(scope, receive, send):
        for operation in (receive(), send(START)):
            await operation
            with pytest.raises(RuntimeError, match="twice"):
                await operation
        await send({"type": "http.response.body", "body": b"once"})

    assert start.client(start(http(answer))).get()[2] == b"once"


def test_current_task_is_the_requests_own(start):
    seen = []

    async def answer(scope, receive, send):
        first = asyncio.current_task()
        await asyncio.sleep(0)
        seen.append((first, asyncio.current_task(), asyncio.get_running_loop()))
        async with asyncio.timeout(5) if hasattr(asyncio, "timeout") else asyncio.Lock():
            await asyncio.sleep(0.01)
        await send(START)
        await send({"type": "http.response.body"})

    assert start.client(start(http(answer))).get()[0] == 200
    assert seen[0][0] is seen[0][1] is not None


def test_task_factory_of_the_program_makes_the_tasks_of_requests(start, background):
    made = []

    class Task(asyncio.Task):
        pass

    def factory(loop, coroutine, **settings):
        made.append(Task(coroutine, loop=loop, **settings))
        return made[-1]

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            asyncio.get_running_loop().set_task_factory(factory)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            assert asyncio.current_task() is made[-1]
            await saying()(scope, receive, send)

    client = start.client(start(app))
    assert client.get()[2] == b"hello"
    assert client.get()[2] == b"hello"
    assert len(made) >= 2


def test_context_variables_last_for_one_request(start):
    var = contextvars.ContextVar("var", default=0)

    async def answer(scope, receive, send):
        before = var.get()
        var.set(before + 1)
        await asyncio.sleep(0)
        await send(START)
        await send({"type": "http.response.body", "body": b"%d %d" % (before, var.get())})

    client = start.client(start(http(answer)))
    assert [client.get()[2] for _ in range(3)] == [b"0 1"] * 3


def test_call_that_blocks_holds_up_its_own_task_only(start):
    async def answer(scope, receive, send):
        syncless.sleep(0.2)  # in the first step
        await asyncio.sleep(0)
        syncless.sleep(0.2)  # in a later one
        assert asyncio.current_task() is not None
        await send(START)
        await send({"type": "http.response.body", "body": b"done"})

    server = start(http(answer))
    before = time.monotonic()
    clients = [start.client(server) for _ in range(50)]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert all(client.response()[2] == b"done" for client in clients)
    assert time.monotonic() - before < 2


# -- request bodies ------------------------------------------------------------------------------------------


def echo():
    async def answer(scope, receive, send):
        body = await whole_body(receive)
        await send(START)
        await send({"type": "http.response.body", "body": body})

    return http(answer)


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_request_body(start, chunked, pause):
    client = start.client(start(echo()))
    body = bytes(range(256)) * 2000
    for _ in range(2):
        if chunked:
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(body), 100000):
                piece = body[at : at + 100000]
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
                if pause:
                    syncless.sleep(0.01)
            client.send(b"0\r\n\r\n")
        else:
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
            for at in range(0, len(body), 100000):
                client.send(body[at : at + 100000])
                if pause:
                    syncless.sleep(0.01)
        assert client.response()[2] == body


def test_request_without_a_body_has_one_empty_message(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append(await receive())
        await send(START)
        await send({"type": "http.response.body"})
        seen.append(await receive())

    assert start.client(start(http(answer))).get()[0] == 200
    assert seen == [{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}]


def test_client_is_asked_to_go_on_when_the_body_is_wanted(start):
    client = start.client(start(echo()))
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert client.response()[0] == 100
    client.send(b"abc")
    assert client.response()[2] == b"abc"


def test_client_is_not_asked_to_go_on_inside_an_answer(start):
    async def answer(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": [b"</a>"]})
        await send(START)
        await send({"type": "http.response.body", "body": b"begun ", "more_body": True})
        await send({"type": "http.response.body", "body": await whole_body(receive)})

    client = start.client(start(http(answer)))
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert client.response()[0] == 103
    while b"begun " not in client.buffer:
        assert client._more()
    syncless.sleep(0.01)
    client.send(b"abc")
    assert client.response()[::2] == (200, b"begun abc")


def test_body_that_nobody_reads_is_read_away(start):
    client = start.client(start(saying()))
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
    assert client.response()[2] == b"hello"
    assert client.get()[2] == b"hello"


def test_body_that_is_too_large_is_refused(start):
    client = start.client(start(echo(), body_bytes=10))
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    client.send(b"b\r\n01234567890\r\n0\r\n\r\n")
    assert client.response()[0] == 413


def test_receive_can_be_cancelled_and_asked_again(start):
    async def answer(scope, receive, send):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(receive(), 0.01)
        body = await whole_body(receive)
        await send(START)
        await send({"type": "http.response.body", "body": body})

    client = start.client(start(http(answer)))
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
    syncless.sleep(0.1)
    client.send(b"abc")
    assert client.response()[2] == b"abc"


# -- the client leaves ---------------------------------------------------------------------------------------


def test_disconnect_is_told_to_all_who_listen(start):
    seen = []

    async def answer(scope, receive, send):
        await receive()
        both = await asyncio.gather(receive(), asyncio.create_task(receive()))
        seen.extend([*both, await receive()])

    server = start(http(answer))
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert eventually(lambda: server.census()["active"])
    client.close()
    assert eventually(lambda: seen == [{"type": "http.disconnect"}] * 3)


def test_disconnect_in_the_middle_of_a_body(start):
    seen = []

    async def answer(scope, receive, send):
        seen.append((await receive())["body"])
        seen.append(await receive())

    server = start(http(answer))
    client = start.client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
    assert eventually(lambda: seen)
    client.close()
    assert eventually(lambda: len(seen) == 2)
    assert seen == [b"abc", {"type": "http.disconnect"}]


def test_send_to_client_that_has_left_raises_oserror(start):
    seen = []

    async def answer(scope, receive, send):
        await send(START)
        try:
            while True:
                await send({"type": "http.response.body", "body": bytes(100000), "more_body": True})
        except OSError as error:
            seen.append(error)

    server = start(http(answer))
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert eventually(lambda: server.census()["active"])
    client.close()
    assert eventually(lambda: seen)


# -- responses -----------------------------------------------------------------------------------------------


def streaming(parts, start=START, pause=0.0):
    async def answer(scope, receive, send):
        await send(start)
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            if pause:
                await asyncio.sleep(pause)
        await send({"type": "http.response.body"})

    return http(answer)


def test_stream_is_chunked(start):
    client = start.client(start(streaming([b"a", b"", bytes(200000), b"b"])))
    for _ in range(2):
        _, headers, body = client.get()
        assert headers["transfer-encoding"] == "chunked" and body == b"a" + bytes(200000) + b"b"


def test_parts_of_a_stream_are_sent_as_they_come(start):
    client = start.client(start(streaming([b"first"] * 3, pause=0.1)))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    while b"first" not in client.buffer:
        assert client._more()
    client.close()


def test_stream_of_known_length(start):
    begin = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]}
    _, headers, body = start.client(start(streaming([b"abc", b"def"], begin))).get()
    assert "transfer-encoding" not in headers and body == b"abcdef"


def test_client_that_does_not_read_holds_up_send(start):
    sent = []

    async def answer(scope, receive, send):
        await send(START)
        for i in range(200):
            await send({"type": "http.response.body", "body": bytes(100000), "more_body": True})
            sent.append(i)
        await send({"type": "http.response.body"})

    server = start(http(answer))
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    syncless.sleep(1)
    assert 0 < len(sent) < 150
    with real_time():  # the kernel may tell by a timer of its own that there is room again
        assert len(client.response()[2]) == 20000000


def test_send_that_waits_for_the_client_can_time_out(start):
    seen = []

    async def answer(scope, receive, send):
        await send(START)
        try:
            while True:
                body = {"type": "http.response.body", "body": bytes(1000000), "more_body": True}
                await asyncio.wait_for(send(body), 0.5)
        except asyncio.TimeoutError as error:
            seen.append(error)
        raise ConnectionError

    server = start(http(answer))
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert eventually(lambda: seen)
    client.close()


@pytest.mark.parametrize("status", [204, 205, 304])
def test_statuses_without_a_body(start, status):
    client = start.client(start(saying(b"", {"type": "http.response.start", "status": status})))
    for _ in range(2):
        assert client.get()[::2] == (status, b"")


FIELDS = [(b"x-one", b"1"), (b"content-length", b"2")]


@pytest.mark.parametrize(
    ("status", "fields", "told"),
    [
        (200, [(b"x-one", b"1"), (b"content-length", b"2")], "1"),
        (200, [[b"x-one", b"1"], [b"content-length", b"2"]], "1"),
        (200, tuple(FIELDS), "1"),
        (200, dict(FIELDS).items(), "1"),
        (201, FIELDS, "1"),
        (200, [(b"x-one", b"2"), (b"content-length", b"2")], "2"),
        (200, [(b"x-one", b"10"), (b"content-length", b"2")], "10"),
        (200, [(b"x-two", b"1"), (b"content-length", b"2")], None),
        (200, [(b"content-length", b"2")], None),
        (200, [(b"x-one", "1"), (b"content-length", b"2")], "error"),
        (200, [(b"x-one", bytearray(b"1")), (b"content-length", b"2")], "error"),
        (200, [(b"x-one", b"1", b"1"), (b"content-length", b"2")], "error"),
        (200, [b"ab", (b"content-length", b"2")], "error"),
    ],
)
def test_head_of_the_last_response_is_used_for_the_same_fields_only(start, errors, status, fields, told):
    messages = iter([(200, FIELDS), (200, list(FIELDS)), (status, fields), (200, FIELDS)])

    async def answer(scope, receive, send):
        status, fields = next(messages)
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": b"ok"})

    server = start(http(answer), error_log=errors)
    answers = [start.client(server).get() for _ in range(4)]
    found = [(status, headers.get("x-one")) for status, headers, _ in answers]
    changed = (500, None) if told == "error" else (status, told)
    assert found == [(200, "1"), (200, "1"), changed, (200, "1")]


def test_head_has_no_body(start):
    client = start.client(start(saying()))
    for _ in range(2):
        client.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
        _, headers, _ = client.response(head_only=True)
        assert headers["content-length"] == "5"
    assert client.get()[2] == b"hello"


def test_http_1_0(start):
    client = start.client(start(streaming([b"a", b"b"])))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    _, headers, body = client.response()
    assert body == b"ab" and "transfer-encoding" not in headers


def test_background_work_goes_on_after_the_response(start):
    done = []

    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"ok"})
        await asyncio.sleep(0.1)
        done.append(scope["path"])

    server = start(http(answer))
    client = start.client(server)
    assert client.get("/1")[2] == b"ok" and not done
    assert client.get("/2")[2] == b"ok" and not done
    assert eventually(lambda: done == ["/1", "/2"])


def test_stop_waits_for_background_work(start):
    done = []

    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"ok"})
        await asyncio.sleep(0.5)
        done.append(1)

    server = start(http(answer))
    start.client(server).get()
    server.stop(10)
    assert done


def test_error_in_background_work_is_logged(start, errors):
    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"ok"})
        await asyncio.sleep(0.01)
        raise ValueError("later")

    assert start.client(start(http(answer), error_log=errors)).get()[2] == b"ok"
    assert eventually(lambda: "ValueError: later" in errors.getvalue())


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_error_of_the_application_is_a_500_and_logged(start, errors, waits):
    async def answer(scope, receive, send):
        if waits:
            await asyncio.sleep(0)
        raise ValueError("mine")

    client = start.client(start(http(answer), error_log=errors))
    assert client.get()[0] == 500
    assert "ValueError: mine" in errors.getvalue() and client.at_end()


@pytest.mark.parametrize("waits", [False, True])
def test_error_in_the_middle_of_a_response_resets_the_connection(start, errors, waits):
    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        if waits:
            await asyncio.sleep(0)
        raise ValueError("mine")

    client = start.client(start(http(answer), error_log=errors))
    assert client.get()[2] is None
    assert "ValueError: mine" in errors.getvalue()


MISTAKES = {
    "no response": ([], "without a response"),
    "body first": ([{"type": "http.response.body"}], "before http.response.start"),
    "start twice": ([START, START], "sent twice"),
    "no status": ([{"type": "http.response.start"}], "needs a 'status'"),
    "unknown": ([{"type": "http.response.begin"}], "http.response.begin"),
    "no type": ([{}], "None"),
    "no dict": (["hello"], "must be a dict, not str"),
    "text": ([START, {"type": "http.response.body", "body": "text"}], "must be bytes, not str"),
    "header": ([{**START, "headers": [("a", "b")]}], "must be bytes"),
    "bad header": ([{**START, "headers": [(b"a", b"b\r\nc: d")]}], "forbidden characters"),
    "interim": ([{**START, "status": 101}], "interim"),
    "status": ([{**START, "status": "200 OK"}], "int"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_messages_are_told(start, errors, name):
    messages, told = MISTAKES[name]

    async def answer(scope, receive, send):
        for message in messages:
            await send(message)

    client = start.client(start(http(answer), error_log=errors))
    assert client.get()[0] == 500
    assert told in errors.getvalue(), errors.getvalue()


def test_unfinished_response_is_told(start, errors):
    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body", "body": b"x", "more_body": True})

    assert start.client(start(http(answer), error_log=errors)).get()[2] is None
    assert "more_body" in errors.getvalue()


def test_message_after_the_response_is_told(start, errors):
    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.body"})
        await send({"type": "http.response.body"})

    assert start.client(start(http(answer), error_log=errors)).get()[0] == 200
    assert "after the response was complete" in errors.getvalue()


def test_request_that_takes_too_long_is_cancelled(start):
    seen = []

    async def answer(scope, receive, send):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    assert start.client(start(http(answer), request_seconds=0.1)).get()[0] == 503
    assert eventually(lambda: seen == ["cancelled"])


def test_stop_interrupts_what_takes_too_long(start):
    async def answer(scope, receive, send):
        await asyncio.sleep(3600)

    server = start(http(answer))
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert eventually(lambda: server.census()["active"])
    server.stop(0.1)
    assert client.response()[0] == 503


def test_tasklets_and_tasks_wait_for_each_other(start):
    queue = syncless.Queue()

    async def answer(scope, receive, send):
        body = await in_tasklet(queue.get)
        await send(START)
        await send({"type": "http.response.body", "body": body})

    client = start.client(start(http(answer)))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    queue.put(b"from a tasklet")
    assert client.response()[2] == b"from a tasklet"


def test_first_step_that_blocks_is_told(start, caplog):
    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            asyncio.get_running_loop().blocking = "warn"
            await send({"type": "lifespan.startup.complete"})
            await receive()
        else:
            syncless.sleep(0.01)
            await send(START)
            await send({"type": "http.response.body", "body": b"hello"})

    client = start.client(start(app))
    assert [client.get()[2] for _ in range(2)] == [b"hello"] * 2
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("waited")]
    assert len(told) == 1 and f"{__file__}:{app.__code__.co_firstlineno + 7};" in told[0], told


def test_messages_may_be_of_a_subclass_of_dict(start):
    async def answer(scope, receive, send):
        await send(OrderedDict(START))
        await send(OrderedDict(type="http.response.body", body=b"hello"))

    assert start.client(start(http(answer))).get()[2] == b"hello"


def test_access_log_has_the_request(start):
    log = io.StringIO()
    client = start.client(start(saying(), access_log=log))
    client.get("/a%20b?c", "User-Agent: me\r\nReferer: there\r\n")
    assert eventually(lambda: log.getvalue())
    assert '"GET /a%20b?c HTTP/1.1" 200 5 "there" "me"' in log.getvalue()


def test_pipelined_requests(start):
    client = start.client(start(saying()))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    assert [client.response()[2] for _ in range(50)] == [b"hello"] * 50


def test_https(https):
    seen = []

    async def answer(scope, receive, send):
        seen.append((scope["scheme"], scope["extensions"]["tls"]))
        await send(START)
        await send({"type": "http.response.body", "body": b"secret"})

    url = https(http(answer)).url
    context = ssl._create_unverified_context()

    def ask():
        with urllib.request.urlopen(url, context=context) as response:
            return response.read()

    assert syncless.run_in_thread(ask) == b"secret"
    assert seen[0][0] == "https" and seen[0][1]["tls_version"] == 0x0304


# -- extensions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, 1000000])
def test_file_is_sent_by_its_path(start, tmp_path, size):
    (tmp_path / "file").write_bytes(bytes(size))

    async def answer(scope, receive, send):
        assert "http.response.pathsend" in scope["extensions"]
        await send(START)
        await send({"type": "http.response.pathsend", "path": str(tmp_path / "file")})

    client = start.client(start(http(answer)))
    for _ in range(2):
        _, headers, body = client.get()
        assert headers["content-length"] == str(size) and body == bytes(size)


def test_file_that_is_not_there_is_an_error_of_the_application(start, errors, tmp_path):
    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.pathsend", "path": str(tmp_path / "none")})

    assert start.client(start(http(answer), error_log=errors)).get()[0] == 500
    assert "FileNotFoundError" in errors.getvalue()


def test_fifo_is_refused_and_nobody_is_waited_for(start, errors, tmp_path):
    os.mkfifo(tmp_path / "fifo")

    async def answer(scope, receive, send):
        await send(START)
        await send({"type": "http.response.pathsend", "path": str(tmp_path / "fifo")})

    assert start.client(start(http(answer), error_log=errors)).get()[0] == 500
    assert "http.response.pathsend needs a regular file, which" in errors.getvalue()


def test_headers_may_be_of_subclasses_of_bytes(start):
    class Bytes(bytes):
        pass

    begin = {**START, "headers": [(Bytes(b"x-own"), Bytes(b"1")), (b"x-other", Bytes(b"2"))]}
    _, headers, body = start.client(start(http(saying(start=begin)))).get()
    assert headers["x-own"] == "1" and headers["x-other"] == "2" and body == b"hello"


def test_early_hint_that_is_no_bytes_is_named(start, errors):
    async def answer(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": ["</a.css>"]})

    assert start.client(start(http(answer), error_log=errors)).get()[0] == 500
    assert "early hints cannot have the field b'link' with the value '</a.css>'" in errors.getvalue()


def test_early_hints_come_before_the_response(start):
    async def answer(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload", b"</b.js>"]})
        await asyncio.sleep(0)
        await send(START)
        await send({"type": "http.response.early_hint", "links": [b"</c>"]})
        await send({"type": "http.response.body", "body": b"hello"})

    client = start.client(start(http(answer)))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert client.response()[:2] == (103, {"link": "</a.css>; rel=preload"})
    assert client.response()[0] == 103
    assert client.response()[2] == b"hello"


@pytest.mark.parametrize("wanted", [True, False])
def test_trailers_are_for_clients_that_want_them(start, wanted):
    async def answer(scope, receive, send):
        fields = [*START["headers"], (b"trailer", b"x-sum, x-more")]
        await send({**START, "headers": fields, "trailers": True})
        await send({"type": "http.response.body", "body": b"hello"})
        await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"1")], "more_trailers": True})
        await send({"type": "http.response.trailers", "headers": [(b"x-more", b"2")]})

    client = start.client(start(http(answer)))
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\nTE: %b\r\n\r\n" % (b"trailers" if wanted else b"gzip"))
    while not client.buffer.endswith(b"\r\n\r\n") or b"hello" not in client.buffer:
        assert client._more()
    end = b"0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n" if wanted else b"0\r\n\r\n"
    assert client.buffer.endswith(b"5\r\nhello\r\n" + end)
    assert b"\r\ntrailer: x-sum, x-more\r\n" in client.buffer
    client.buffer = b""


@pytest.mark.parametrize(
    "message",
    [
        {"type": "http.response.trailers", "headers": [(b"content-length", b"1")]},
        {"type": "http.response.trailers", "headers": [(b"x", b"a\r\nb")]},
    ],
)
def test_wrong_trailers_are_told(start, errors, message):
    async def answer(scope, receive, send):
        await send({**START, "trailers": True})
        await send({"type": "http.response.body", "body": b"hello"})
        await send(message)

    client = start.client(start(http(answer), error_log=errors))
    assert client.get()[2] is None
    assert "a trailer cannot have the field" in errors.getvalue()


@pytest.mark.virtual_time(False)
def test_worker_thread_of_anyio_serves_later_requests(start):
    to_thread = pytest.importorskip("anyio.to_thread", reason="anyio is not installed")
    here = threading.local()

    def count():
        here.calls = getattr(here, "calls", 0) + 1
        return here.calls

    async def answer(scope, receive, send):
        await saying(b"%d" % await to_thread.run_sync(count))(scope, receive, send)

    client = start.client(start(http(answer)))
    assert [client.get()[2] for _ in range(3)] == [b"1", b"2", b"3"]
