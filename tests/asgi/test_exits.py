"""Exceptions that would end a program: they end the request, not the loop that serves all others."""

import asyncio

import pytest

import syncless
from syncless.asyncio import in_tasklet
from tests.asgi.test_http import http, saying
from tests.waiting import eventually
from tests.wsgi.test_exits import handled

__all__ = ["handled"]
pytestmark = pytest.mark.virtual_time


def leaving(kind, waits):
    async def answer(scope, receive, send):
        if scope["path"] == "/leave":
            if waits:
                await asyncio.sleep(0.01)
            raise kind
        await saying()(scope, receive, send)

    return http(answer)


EXITS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, BaseException]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", EXITS)
def test_exit_is_an_error_of_its_request(start, errors, handled, waits, kind):
    server = start(leaving(kind, waits), error_log=errors)
    assert start.client(server).get("/leave")[0] == 500
    assert start.client(server).get()[2] == b"hello"
    assert errors.getvalue().count(kind.__name__) == 1


@pytest.mark.parametrize("waits", [False, True])
def test_kill_is_a_503_that_is_not_logged(start, errors, waits):
    server = start(leaving(syncless.TaskletExit, waits), error_log=errors)
    assert start.client(server).get("/leave")[0] == 503
    assert start.client(server).get()[2] == b"hello" and errors.getvalue() == ""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, BaseException])
def test_exit_of_a_function_in_a_tasklet_is_raised_where_it_is_awaited(start, errors, handled, waits, kind):
    def leave():
        if waits:
            syncless.sleep(0.01)
        raise kind("on purpose")

    async def answer(scope, receive, send):
        try:
            await in_tasklet(leave)
        except kind:
            if scope["path"] == "/caught":
                return await saying()(scope, receive, send)
            raise

    server = start(http(answer), error_log=errors)
    assert start.client(server).get("/caught")[2] == b"hello" and errors.getvalue() == ""
    assert start.client(server).get()[0] == 500
    assert errors.getvalue().count(f"{kind.__name__}: on purpose") == 1


@pytest.mark.parametrize("waits", [False, True])
def test_keyboard_interrupt_is_raised_once_in_the_main_tasklet(start, waits):
    server = start(leaving(KeyboardInterrupt, waits))
    client = start.client(server)
    with pytest.raises(KeyboardInterrupt):
        client.get("/leave")
    assert client.response()[0] == 503
    assert start.client(server).get()[2] == b"hello"


def test_exit_of_background_work_is_logged(start, errors):
    async def answer(scope, receive, send):
        await saying()(scope, receive, send)
        await asyncio.sleep(0.01)
        raise SystemExit(3)

    client = start.client(start(http(answer), error_log=errors))
    assert client.get()[2] == b"hello"
    assert eventually(lambda: "SystemExit: 3" in errors.getvalue())
    assert client.get()[2] == b"hello"


def test_server_stops_whose_loop_is_closed(start, background):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    server = start(app, lifespan="off")
    assert start.client(server).get("/")[2] == b"ok"
    background.close()
    server.stop()
