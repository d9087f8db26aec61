"""ASGI applications over HTTP/2."""

import pytest

from tests import fuzz_http2, needs
from tests.http2_client import connector, events
from tests.waiting import eventually

pytestmark = [
    pytest.mark.usefixtures("background"),
    pytest.mark.virtual_time,
    needs.HTTP2,
]
connect = pytest.fixture(connector)


async def echo(scope, receive, send):
    assert scope["type"] == "http"
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    version = scope["http_version"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-version", version)]})
    await send({"type": "http.response.body", "body": body[:3], "more_body": True})
    await send({"type": "http.response.body", "body": body[3:]})


@pytest.mark.parametrize("size", [0, 5, 200_000])
def test_request_is_answered(connect, size):
    _, client = connect(echo, interface="asgi", lifespan="off")
    client = client()
    stream = client.ask("/", "POST", ends=False)
    client.upload(stream, bytes(size))
    status, headers, body = client.answer(stream)
    assert (status, headers["x-version"], body) == (200, "2", bytes(size))


def test_trailers_follow_the_body(connect):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"hello"})
        await send({"type": "http.response.trailers", "headers": [(b"Grpc-Status", b"0")]})

    _, client = connect(app, interface="asgi", lifespan="off")
    client = client()
    stream = client.ask("/", "GET", ("te", "trailers"))
    assert client.answer(stream)[2] == b"hello"
    assert client.wait_for(events.TrailersReceived, stream).headers == [("grpc-status", "0")]


def test_trailers_larger_than_the_client_takes_reset_the_stream(connect, errors):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
        await send({"type": "http.response.body", "body": b"hello"})
        await send({"type": "http.response.trailers", "headers": [(b"a", b"a" * 70_000)]})

    _, client = connect(app, interface="asgi", lifespan="off", error_log=errors)
    client = client()
    assert client.get("/", "GET", ("te", "trailers"))[2] is None
    assert "trailers" in errors.getvalue()


def test_early_hints_come_before_the_response(connect):
    async def app(scope, receive, send):
        await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    _, client = connect(app, interface="asgi", lifespan="off")
    client = client()
    stream = client.ask()
    assert client.answer(stream)[2] == b"hello"
    hint = client.wait_for(events.InformationalResponseReceived, stream)
    assert (":status", "103") in hint.headers and ("link", "</a.css>; rel=preload") in hint.headers


def test_reset_stream_is_a_disconnect(connect):
    heard = []

    async def app(scope, receive, send):
        await receive()
        heard.append((await receive())["type"])

    server, client = connect(app, interface="asgi", lifespan="off")
    client = client()
    stream = client.ask()
    assert eventually(lambda: server.census()["active"] == 1)
    client.h2.reset_stream(stream)
    client.flush()
    assert eventually(lambda: heard == ["http.disconnect"])


@pytest.mark.parametrize("more", [False, True])
def test_file_is_sent(connect, tmp_path, more):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1000)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with open(path, "rb") as file:
            await send({"type": "http.response.zerocopysend", "file": file, "more_body": more})
            if more:
                await send({"type": "http.response.body", "body": b"end"})

    _, client = connect(app, interface="asgi", lifespan="off")
    assert client().get()[2] == path.read_bytes() + b"end" * more


def test_frames_in_any_order_harm_no_other():
    assert fuzz_http2.run(1, lambda sent: sent > 500, fuzz_http2.asgi_application) > 500
