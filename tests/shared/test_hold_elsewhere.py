"""hold() in ASGI applications, and over HTTP/2, where a tasklet goes on with it."""

import asyncio

import pytest

from syncless.asyncio.backgroundloop import await_
from syncless.io import socket
from syncless.shared import publish
from syncless.wsgi import Server, hold
from tests import needs
from tests.http.test_websocket import HANDSHAKE, frame
from tests.waiting import eventually

REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
OPENING = HANDSHAKE.encode() + b"\r\n"


async def app(scope, receive, send):
    def on_message(message, client):
        client.send([message])

    await hold("news", "user:*", on_message=on_message)(scope, receive, send)


def wsgi(environ, start_response):
    return hold("news", on_message=lambda message, client: client.send([message]))(environ, start_response)


@pytest.fixture
def held(background):
    servers = []

    def start(application=app, **options):
        servers.append(Server(application, port=0, lifespan="off", **options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop(0)
        assert server.census() == {}


@pytest.fixture
def connect(held):
    pytest.importorskip("h2", reason="the client is the library h2: pip install h2")
    from tests.http2_client import Client

    def begin(application):
        server = held(application, http2="cleartext")
        return server, Client(server)

    return begin


def opened(server, request=REQUEST):
    sock = socket.create_connection(server.address)
    sock.sendall(request)
    file = sock.makefile("rb")
    head = b"".join(iter(file.readline, b"\r\n"))
    return sock, file, head


def lines(file, number):
    found = []
    while len(found) < number:
        line = file.readline()
        assert line, "the stream has ended"
        if line.startswith((b"data", b"event")):
            found.append(line.decode().strip())
    return found


def asked(server, number=1):
    return eventually(lambda: server.census().get("held", 0) == number)


def test_asgi_application_holds_an_event_stream(held):
    server = held()
    sock, file, head = opened(server, REQUEST.replace(b"Host", b"Last-Event-ID: x-1\r\nHost"))
    assert b"200 OK" in head and b"content-type: text/event-stream" in head.lower()
    assert asked(server) and server.census()["active"] == 0
    publish("news", "one")
    publish("user:1", {"a": 1})
    assert lines(file, 2) == ["data: one", 'data: {"a":1}']
    server.stop()
    assert file.read().endswith(b"0\r\n\r\n")
    file.close()
    sock.close()


def test_asgi_application_goes_on_behind_the_last_event_of_its_client(held, region):
    server = held()
    for number in range(3):
        publish("news", str(number))
    sock, file, _ = opened(server, REQUEST.replace(b"Host", b"Last-Event-ID: %b-1\r\nHost" % region.mark))
    assert lines(file, 2) == ["data: 1", "data: 2"]
    file.close()
    sock.close()


def test_asgi_application_answers_head(held):
    server = held()
    with socket.create_connection(server.address) as client, client.makefile("rb") as answer:
        for _ in range(2):
            client.sendall(REQUEST.replace(b"GET", b"HEAD"))
            assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
            assert b"content-type: text/event-stream\r\n" in [
                x.lower() for x in iter(answer.readline, b"\r\n")
            ]


def test_asgi_application_may_go_on_after_it_holds(held):
    done = []

    async def going_on(scope, receive, send):
        await hold("news")(scope, receive, send)
        done.append(await receive())
        with pytest.raises(RuntimeError, match="complete"):
            await send({"type": "http.response.body"})
        done.append("end")

    server = held(going_on)
    sock, file, _ = opened(server)
    assert asked(server) and eventually(lambda: done == [{"type": "http.disconnect"}, "end"])
    publish("news", "one")
    assert lines(file, 1) == ["data: one"]
    file.close()
    sock.close()


def test_asgi_application_holds_a_websocket(held):
    pytest.importorskip("websockets")
    server = held()
    sock, file, head = opened(server, OPENING)
    assert b" 101 " in head and asked(server) and server.census()["active"] == 0
    publish("news", "one")
    assert file.read(5) == b"\x81\x03one"
    sock.sendall(frame(1, b"x") + frame(1, b"y"))
    assert file.read(14) == b'\x81\x05["x"]\x81\x05["y"]'
    sock.sendall(frame(8, b"\x03\xe8"))
    assert file.read() == b"\x88\x02\x03\xe8"
    file.close()
    sock.close()


def test_coroutine_function_takes_messages(held):
    pytest.importorskip("websockets")

    async def on_message(message, client):
        await asyncio.sleep(0)
        client.send(message + asyncio.current_task().get_coro().__name__)

    async def application(scope, receive, send):
        await hold("news", on_message=on_message)(scope, receive, send)

    server = held(application)
    sock, file, _ = opened(server, OPENING)
    assert asked(server)
    sock.sendall(frame(1, b"x"))
    assert file.read(13) == b"\x81\x0bxon_message"
    file.close()
    sock.close()


def test_starlette_and_fastapi_return_it(held):
    pytest.importorskip("starlette")
    fastapi = pytest.importorskip("fastapi")
    from starlette.routing import Route, WebSocketRoute

    class Held(fastapi.Response):
        """As the documentation has it."""

        def __init__(self, held):
            super().__init__()
            self.held = held

        async def __call__(self, scope, receive, send):
            await self.held(scope, receive, send)

    site = fastapi.FastAPI()

    @site.get("/fastapi/{user}")
    async def events(user: str):
        return Held(hold("news", f"user:{user}"))

    async def starlette(request):
        return hold("news")

    class Chat:
        async def __call__(self, scope, receive, send):
            room = scope["path_params"]["room"]
            held = hold("news", on_message=lambda message, client: client.send([room, message]))
            await held(scope, receive, send)

    site.router.routes.append(Route("/starlette", starlette))
    site.router.routes.append(WebSocketRoute("/{room}", Chat()))
    server = held(site)
    for number, path in enumerate((b"/fastapi/7", b"/starlette")):
        sock, file, head = opened(server, REQUEST.replace(b"/ ", path + b" "))
        assert b"200 OK" in head and asked(server)
        publish("news", str(number))
        assert lines(file, 1) == [f"data: {number}"]
        file.close()
        sock.close()
        assert eventually(lambda: not server.census()["connections"])
    sock, file, head = opened(server, OPENING)
    assert b" 101 " in head and asked(server)
    sock.sendall(frame(1, b"x"))
    assert file.read(12) == b'\x81\x0a["ws","x"]'
    file.close()
    sock.close()


def test_other_asgi_servers_get_messages_that_they_know(background):
    sent = []

    async def send(message):
        sent.append(message)
        if len(sent) == 2:
            publish("news", "one")
        if len(sent) == 3:
            raise OSError

    async def run():
        scope = {"type": "http", "headers": []}
        with pytest.raises(OSError):
            await hold("news")(scope, None, send)
        with pytest.raises(RuntimeError, match="WebSockets"):
            await hold("news")({"type": "websocket", "headers": []}, None, send)

    await_(run())
    assert [message["type"] for message in sent] == ["http.response.start", *["http.response.body"] * 2]
    assert sent[1]["body"].startswith(b"retry: ") and b"data: one\n" in sent[2]["body"]


@needs.HTTP2
@pytest.mark.parametrize("application", [app, wsgi])
def test_event_stream_over_http2(connect, application):
    server, client = connect(application)
    stream = client.ask()
    events = client_events(client)
    assert events(b"retry", stream)
    publish("news", "one")
    assert events(b"data: one", stream)
    publish("news", "two")
    assert events(b"data: two", stream)
    client.close()
    assert eventually(lambda: not server.census()["connections"])


def client_events(client):
    """Returns a function that waits for bytes of a body."""
    from h2.events import DataReceived

    got = b""

    def wait(word, stream):
        nonlocal got
        while word not in got:
            found = [event for event in client.events if isinstance(event, DataReceived)]
            got = b"".join(event.data for event in found if event.stream_id == stream)
            if word not in got:
                assert client.read(), "the connection has ended"
        return True

    return wait


@needs.HTTP2
@pytest.mark.parametrize("application", [app, wsgi])
def test_websocket_over_http2(connect, application):
    pytest.importorskip("websockets")
    server, client = connect(application)
    stream = client.ask(
        "/", "CONNECT", (":protocol", "websocket"), ("sec-websocket-version", "13"), ends=False
    )
    events = client_events(client)
    client.h2.send_data(stream, frame(1, b"x") + frame(1, b"y"))
    client.flush()
    assert events(b'\x81\x05["x"]\x81\x05["y"]', stream)
    publish("news", "one")
    assert events(b"\x81\x03one", stream)
    client.h2.send_data(stream, frame(8, b"\x03\xe8"))
    client.flush()
    assert events(b"\x88\x02\x03\xe8", stream)
    assert eventually(lambda: server.census()["active"] == 0)
    client.close()
