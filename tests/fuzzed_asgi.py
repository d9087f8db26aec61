"""The application of tests/fuzz.py as one of ASGI: every way to answer, right and wrong."""

import asyncio

START = {"type": "http.response.start", "status": 200, "headers": []}
LARGE = bytes(40_000)  # more than is put into a connection's buffer at once


async def whole_body(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    if scope["type"] == "websocket":
        await speak(scope["path"], receive, send)
        return
    path, start, parts = scope["path"], START, [b"hello"]
    if path in FURTHER:
        await FURTHER[path](receive, send)
        return
    if path in ("/echo", "/lines"):
        parts = [await whole_body(receive)]
    elif path == "/stream":
        parts = [b"a", b"", b"b" * 3000, b"c"]
    elif path == "/empty":
        start, parts = {**START, "status": 204}, [b""]
    elif path == "/error":
        raise RuntimeError("on purpose")
    elif path == "/late":
        parts = [b"begun", None]
    elif path in ("/short", "/long"):
        size = b"10" if path == "/short" else b"2"
        start, parts = {**START, "headers": [(b"content-length", size)]}, [path[1:].encode()]
    elif path == "/unread":
        await receive()
        await asyncio.sleep(0)
    await send(start)
    await say(send, *parts)


async def say(send, *parts, more=False):
    """The parts of a body; None raises."""
    for place, part in enumerate(parts, 1):
        if part is None:
            raise RuntimeError("on purpose, in mid-stream")
        await send({"type": "http.response.body", "body": part, "more_body": more or place < len(parts)})


# -- further answers over HTTP ---------------------------------------------------------------------


async def from_two_tasks(receive, send):
    """Two tasks send at once, some of it in tasklets."""
    await send(START)
    await asyncio.gather(*(say(send, LARGE, b"small", more=True) for _ in range(2)))
    await say(send, b"")


async def file(receive, send):
    await send(START)
    await send({"type": "http.response.pathsend", "path": __file__})


async def regions_of_a_file(receive, send):
    """Two tasks send a part of it each."""
    with open(__file__, "rb") as source:
        part = {"type": "http.response.zerocopysend", "file": source, "offset": 1, "count": 99}
        await send(START)
        await asyncio.gather(*(send({**part, "more_body": True}) for _ in range(2)))
        await send(part)


async def trailers(receive, send):
    await send({**START, "trailers": True})
    await say(send, b"hello", await whole_body(receive))
    await send({"type": "http.response.trailers", "headers": [(b"x-trailer", b"yes")]})


async def hints(receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</a>"]})
    await asyncio.sleep(0)
    await send(START)
    await say(send, b"hello")


async def ears(receive, send):
    """Another task waits for the client's end meanwhile, and is left to itself."""
    await whole_body(receive)
    other = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    await send(START)
    await say(send, b"hello")
    await other


async def impatient(receive, send):
    """Gives up waiting for the body, and answers all the same."""
    other = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    other.cancel()
    await send(START)
    await say(send, b"hello")


async def after(receive, send):
    """Goes on when it has answered."""
    await send(START)
    await say(send, b"hello")
    await asyncio.sleep(0.01)
    await receive()


async def until_gone(receive, send):
    """Sends large parts, so that a client that has left is noticed in between."""
    await send(START)
    for _ in range(3):
        await say(send, LARGE, more=True)
        await asyncio.sleep(0)
    await say(send, b"")


FURTHER = {
    "/two": from_two_tasks,
    "/file": file,
    "/region": regions_of_a_file,
    "/trailers": trailers,
    "/hints": hints,
    "/ears": ears,
    "/impatient": impatient,
    "/after": after,
    "/gone": until_gone,
}


# -- WebSockets ------------------------------------------------------------------------------------


async def echo(receive, send):
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def speak(path, receive, send):
    await receive()
    if path == "/unanswered":
        raise RuntimeError("on purpose")
    if path == "/refuse":
        await send({"type": "websocket.close", "code": 1008})
        return
    if path == "/deny":
        await send({**START, "type": "websocket.http.response.start", "status": 401})
        for more in (True, False):
            await send({"type": "websocket.http.response.body", "body": LARGE, "more_body": more})
        return
    await send({"type": "websocket.accept"})
    if path == "/close":
        first = await receive()
        if first["type"] == "websocket.receive":
            await send({"type": "websocket.close", "code": 3000 + len(first), "reason": "é" * 100})
        return
    if path == "/two":
        await asyncio.gather(
            echo(receive, send),
            *(send({"type": "websocket.send", "bytes": LARGE * 2}) for _ in range(2)),
        )
        return
    await echo(receive, send)
