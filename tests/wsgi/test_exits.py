"""Exceptions that would end a program, raised by a view: they end its request, not the server."""

import asyncio
import signal

import pytest

import syncless
from tests.wsgi.applications import HELLO

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def handled():
    """SIGINT has a handler of the server, as with the command and serve(): Ctrl-C raises nothing."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)


def leaving(kind, waits=False):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/leave":
            if waits:
                syncless.sleep(0.01)
            raise kind("on purpose")
        start_response("200 OK", [])
        return [HELLO]

    return app


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    "kind", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException]
)
def test_exit_is_an_error_of_its_request(start, errors, handled, kind, waits):
    server = start(leaving(kind, waits), error_log=errors)
    assert start.client(server).get("/leave")[0] == 500
    assert start.client(server).get()[2] == HELLO
    assert errors.getvalue().count(f"{kind.__name__}: on purpose") == 1


def test_kill_is_a_503_that_is_not_logged(start, errors):
    server = start(leaving(syncless.TaskletExit), error_log=errors)
    assert start.client(server).get("/leave")[0] == 503
    assert start.client(server).get()[2] == HELLO and errors.getvalue() == ""


def test_keyboard_interrupt_is_the_main_tasklets_where_ctrl_c_raises_it(start):
    server = start(leaving(KeyboardInterrupt))
    client = start.client(server)
    with pytest.raises(KeyboardInterrupt):
        client.get("/leave")
    assert client.response()[0] == 503
    assert start.client(server).get()[2] == HELLO
