"""A receive() that waits for the request body, and its cancellation."""

import asyncio
import socket

import pytest

import syncless
from syncless.asyncio import in_tasklet
from tests.asgi.test_http import START, http, saying
from tests.http import test_fairness as fairness
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"


def test_paths_of_one_length_are_told_apart(start):
    async def answer(scope, receive, send):
        await saying(scope["path"].encode() + scope["raw_path"])(scope, receive, send)

    client = start.client(start(http(answer)))
    assert [client.get(path)[2] for path in ("/a", "/b", "/a")] == [b"/a/a", b"/b/b", b"/a/a"]


def test_second_task_that_waits_in_receive_is_refused(start):
    told = []

    async def answer(scope, receive, send):
        first = asyncio.ensure_future(receive())
        await asyncio.sleep(0.01)
        try:
            await receive()
        except RuntimeError as error:
            told.append(str(error))
        first.cancel()
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.send(POST)
    assert client.response()[0] == 200
    client.send(b"12345" + POST)
    assert client.response()[0] == 200
    assert told == ["another task is already waiting in receive()"] * 2


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("step", range(4))
def test_receive_after_a_cancelled_one_gets_the_whole_body(start, step, pause):
    """The bytes come before the cancellation, in the same round of the loop, or after it."""
    bodies = []

    async def answer(scope, receive, send):
        first = asyncio.ensure_future(receive())
        await asyncio.sleep(0.01)
        client.send(b"123")
        for _ in range(step):
            await asyncio.sleep(0)
        cancelled = first.cancel()
        if pause:
            await asyncio.sleep(0.01)
        whole = b"" if cancelled else (await first)["body"]
        client.send(b"45")
        while True:
            message = await receive()
            whole += message["body"]
            if not message["more_body"]:
                break
        bodies.append(whole)
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.send(POST)
    assert client.response()[0] == 200
    assert bodies == [b"12345"]


def test_task_that_waits_in_receive_when_the_response_is_complete_hears_of_the_end(start):
    heard = []

    async def listens(receive):
        heard.append(await receive())

    async def answer(scope, receive, send):
        task = asyncio.ensure_future(listens(receive))
        await asyncio.sleep(0.01)
        await saying()(scope, receive, send)
        await task

    client = start.client(start(http(answer)))
    client.send(POST)
    assert client.response()[0] == 200
    assert heard == [{"type": "http.disconnect"}]


# -- chunks --------------------------------------------------------------------------------------------------


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("waits", [False, True])
def test_chunks_that_have_come_are_one_message(start, waits):
    """`waits`: receive() waits for the first of them."""
    heard = []

    async def answer(scope, receive, send):
        if waits:
            first = asyncio.ensure_future(receive())
            await asyncio.sleep(0.1)
            client.send(b"2\r\nab\r\n" * 400)
            heard.append(await first)
        await asyncio.sleep(0.1)
        while not heard or heard[-1]["more_body"]:
            heard.append(await receive())
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.send(CHUNKED)
    if not waits:
        client.send(b"2\r\nab\r\n" * 400)
    syncless.sleep(0.2)
    client.send(b"0\r\n\r\n")
    assert client.response()[0] == 200
    assert b"".join(message["body"] for message in heard) == b"ab" * 400
    assert len(heard) == 2


@pytest.mark.parametrize("size", [2, 3, 9000, 70000])
def test_many_chunks_are_few_messages(start, size):
    heard = []

    async def answer(scope, receive, send):
        while not heard or heard[-1]["more_body"]:
            heard.append(await receive())
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    chunk = bytes(i % 251 for i in range(size))
    count = 400_000 // size
    client.send(CHUNKED + b"%x\r\n%b\r\n" % (size, chunk) * count + b"0\r\n\r\n")
    assert client.response()[0] == 200
    assert b"".join(message["body"] for message in heard) == chunk * count
    assert len(heard) < 700
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response()[0] == 200


def test_chunked_body_cut_anywhere_is_the_same(start):
    """It comes in two parts, and the application asks between them."""
    bodies = []

    async def answer(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        bodies.append(body)
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    rest = b"2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
    for cut in range(len(rest)):
        client.send(CHUNKED + rest[:cut])
        syncless.sleep(0.01)
        client.send(rest[cut:])
        assert client.response()[0] == 200
    assert bodies == [b"hello"] * len(rest)


@pytest.mark.parametrize(
    ("broken", "status"),
    [(b"x\r\n", 400), (b"1\r\nabc", 400), (b"ffff\r\n", 413), (b"0\r\nx y: z\r\n\r\n", 400)],
)
@pytest.mark.parametrize("pause", [False, True])
def test_chunks_before_a_broken_one_are_given_first(start, broken, status, pause):
    heard = []

    async def answer(scope, receive, send):
        if pause:
            await asyncio.sleep(0.1)
        while True:
            heard.append((await receive())["body"])

    client = start.client(start(http(answer), body_bytes=100))
    client.send(CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n" + broken)
    assert client.response()[0] == status
    assert b"".join(heard) in (b"hello", b"helloa")


# -- the client closes its sending half, or leaves ----------------------------------------------------------


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize(
    ("request_bytes", "cut"), [(POST + b"hello", 3), (CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 10)]
)
def test_body_that_has_come_is_given_before_the_disconnect(start, request_bytes, cut, ends):
    """`ends`: the body is whole."""
    heard = []

    async def answer(scope, receive, send):
        await asyncio.sleep(0.1)
        while not heard or heard[-1]["type"] != "http.disconnect":
            heard.append(await receive())
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.send(request_bytes if ends else request_bytes[:-cut])
    client.sock.shutdown(socket.SHUT_WR)
    assert client.response()[0] == 200
    body = b"".join(message.get("body", b"") for message in heard)
    assert body == (b"hello" if ends else b"he")
    assert [message["type"] for message in heard[-2:]] == ["http.request", "http.disconnect"]
    assert heard[-2]["more_body"] is not ends


@pytest.mark.parametrize("request_bytes", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", POST + b"abc"])
@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_application_may_return_when_the_client_has_left(start, errors, request_bytes, waits, begins):
    """Nothing is logged, whether it was told of it or not, and whether its response has begun."""
    began, ended = [], []

    async def answer(scope, receive, send):
        began.append(scope)
        if begins:
            await send(START)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        if waits:
            await asyncio.sleep(0.2)
        else:
            while (await receive())["type"] != "http.disconnect":
                pass
        ended.append(scope)

    server = start(http(answer), error_log=errors)
    client = start.client(server)
    client.send(request_bytes)
    assert eventually(lambda: began)
    client.close()
    assert eventually(lambda: ended and not server.census()["active"])
    assert errors.getvalue() == ""


@pytest.mark.virtual_time(False)
def test_client_that_never_lets_receive_wait_does_not_starve_others(start):
    turns = fairness.Turns()

    async def answer(scope, receive, send):
        while (await receive())["more_body"]:
            turns.done()
        turns.over.set()
        await saying()(scope, receive, send)

    turns.measure(start(http(answer)), fairness.POST)


@pytest.mark.virtual_time(False)
def test_receive_that_ends_while_others_have_a_turn_loses_nothing(start):
    received = []
    ended = []

    class Repeated:
        def __init__(self, receive):
            self.receive = receive

        def __await__(self):
            waiting = self.receive().__await__()
            while True:
                try:
                    future = next(waiting)
                except StopIteration as done:
                    return done.value
                if future is None and len(ended) < 3:
                    ended.append(waiting.close())
                    waiting = self.receive().__await__()
                yield future

    async def answer(scope, receive, send):
        more = True
        while more:
            message = await Repeated(receive)
            received.append(message["body"])
            more = message["more_body"]
        await saying()(scope, receive, send)

    client = start.client(start(http(answer)))
    client.send(fairness.POST)
    assert client.response()[0] == 200
    assert len(ended) == 3 and sum(map(len, received)) == len(fairness.PIECE) * fairness.PIECES


@pytest.mark.virtual_time(False)
def test_receive_whose_request_ends_while_others_have_a_turn_hears_of_the_end(start):
    """It was told that the body is whole, when the server had read the rest away."""
    over = syncless.Event()
    tasks = []

    class Held:
        """A receive() whose turn lasts until the request is over."""

        def __init__(self, receive, begun):
            self.receive, self.begun = receive, begun

        def __await__(self):
            waiting = self.receive().__await__()
            while True:
                try:
                    future = next(waiting)
                except StopIteration as done:
                    return done.value
                if future is None:
                    self.begun.set()
                    yield from in_tasklet(over.wait).__await__()
                else:
                    yield future

    async def listen(receive, begun):
        while True:
            message = await Held(receive, begun)
            if begun.is_set() or not message["more_body"]:
                return message

    async def answer(scope, receive, send):
        begun = asyncio.Event()
        tasks.append(asyncio.ensure_future(listen(receive, begun)))
        await begun.wait()
        await saying()(scope, receive, send)

    client = start.client(start(http(answer), drain_bytes=len(fairness.POST)))
    client.send(fairness.POST)
    assert client.response()[0] == 200
    over.set()
    assert eventually(tasks[0].done)
    assert tasks[0].result() == {"type": "http.disconnect"}
