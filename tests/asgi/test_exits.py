"""Exceptions that would end a program: they end the request, not the loop that serves all others."""

import asyncio

import pytest

from tests.asgi.test_http import http, saying
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def leaving(kind, waits):
    async def answer(scope, receive, send):
        if scope["path"] == "/leave":
            if waits:
                await asyncio.sleep(0.01)
            raise kind
        await saying()(scope, receive, send)

    return http(answer)


@pytest.mark.parametrize("waits", [False, True])
def test_exit_is_an_error_of_its_request(start, errors, waits):
    server = start(leaving(SystemExit, waits), error_log=errors)
    assert start.client(server).get("/leave")[0] == 500
    assert start.client(server).get()[2] == b"hello"
    assert errors.getvalue().count("SystemExit") == 1


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
