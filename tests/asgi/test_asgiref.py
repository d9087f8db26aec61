"""asgiref on our server: its bridges between synchronous and asynchronous code, and its testing tools."""

import asyncio
import functools

import pytest

from syncless.asyncio import await_
from tests.asgi.test_http import START, http, saying

compatibility = pytest.importorskip("asgiref.compatibility", reason="asgiref is not installed")
from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async  # noqa: E402
from asgiref.testing import ApplicationCommunicator  # noqa: E402


def test_application_of_asgi_2_is_served_as_one_of_asgi_3(start):
    class Double:
        def __init__(self, scope):
            if scope["type"] != "http":
                raise NotImplementedError
            self.path = scope["path"]

        async def __call__(self, receive, send):
            assert (await receive())["type"] == "http.request"
            await send(START)
            await send({"type": "http.response.body", "body": self.path.encode()})

    client = start.client(start(compatibility.guarantee_single_callable(Double)))
    assert client.get("/double")[2] == b"/double"


@pytest.mark.parametrize("sensitive", [True, False])
def test_synchronous_code_in_an_asgi_application(start, sensitive):
    """And from there a coroutine in the loop of the server."""
    loops = []

    async def inner(value):
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return value + 1

    def outer(value):
        return async_to_sync(inner)(value) * 2

    async def answer(scope, receive, send):
        loops.append(asyncio.get_running_loop())
        body = await sync_to_async(outer, thread_sensitive=sensitive)(20)
        await send(START)
        await send({"type": "http.response.body", "body": b"%d" % body})

    client = start.client(start(http(answer)))
    assert [client.get()[2] for _ in range(2)] == [b"42"] * 2
    assert len(set(loops)) == 1


@pytest.mark.filterwarnings("error")
def test_receive_and_send_are_coroutine_functions_to_synchronous_code(start):
    """Synchronous consumers of Channels send by async_to_sync(), which warns of what is none."""

    async def answer(scope, receive, send):
        assert iscoroutinefunction(receive) and iscoroutinefunction(send)
        message = await sync_to_async(async_to_sync(receive))()
        assert message["type"] == "http.request"
        await sync_to_async(async_to_sync(send))(START)
        await send({"type": "http.response.body", "body": b"sent"})

    assert start.client(start(http(answer))).get()[2] == b"sent"


def test_receive_and_send_refuse_what_functions_do(start):
    async def answer(scope, receive, send):
        errors = []
        for call in (
            lambda: receive(1),
            lambda: receive(message=1),
            send,
            lambda: send(START, START),
            lambda: send(message=START),
            lambda: functools.partial(send, START)(START),
        ):
            with pytest.raises(TypeError, match=r"^(receive|send)\(\) takes ") as caught:
                call()
            errors.append(str(caught.value))
        await functools.partial(send, START)()
        await send({"type": "http.response.body", "body": "; ".join(errors).encode()})

    assert b"send() takes 1 arguments (2 given)" in start.client(start(http(answer))).get()[2]


def test_coroutine_in_a_wsgi_application(start):
    async def inner(value):
        await asyncio.sleep(0.001)
        return value

    def app(environ, start_response):
        start_response("200 OK", [])
        return [async_to_sync(inner)(environ["PATH_INFO"].encode())]

    assert start.client(start(app)).get("/x")[2] == b"/x"


def test_communicator_beside_the_server(start):
    """The application gives the messages that it gives when it is served."""
    app = saying(b"both")

    async def talk():
        communicator = ApplicationCommunicator(app, {"type": "http", "method": "GET", "path": "/"})
        await communicator.send_input({"type": "http.request", "body": b"", "more_body": False})
        messages = [await communicator.receive_output(5) for _ in range(2)]
        assert await communicator.receive_nothing()
        await communicator.wait(60)
        return messages

    assert start.client(start(app)).get()[2] == b"both"
    assert await_(talk()) == [START, {"type": "http.response.body", "body": b"both"}]


BRIDGES = """
import asyncio, threading, time
from asgiref.sync import async_to_sync, iscoroutinefunction, sync_to_async

waiting = most = 0

def work():
    global waiting, most
    waiting += 1
    most = max(most, waiting)
    time.sleep(0.2)
    waiting -= 1
    return async_to_sync(double)(21)

async def double(value):
    await asyncio.sleep(0)
    return 2 * value

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    values = await asyncio.gather(*[sync_to_async(work, thread_sensitive=False)() for _ in range(20)])
    await send({{"type": "http.response.start", "status": 200, "headers": [(b"x-pid", b"0")]}})
    await send({{"type": "http.response.body", "body": repr((set(values), most > 1)).encode()}})
"""


def test_bridges_under_the_patch(program):
    assert program(code=BRIDGES).get("/")[2] == "({42}, True)"
