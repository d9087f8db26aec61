"""The application of tests/fuzz.py as one of ASGI: every way to answer, right and wrong."""

import asyncio

START = {"type": "http.response.start", "status": 200, "headers": []}


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
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({**message, "type": "websocket.send"})
        return
    path, start, parts = scope["path"], START, [b"hello"]
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
    for place, part in enumerate(parts, 1):
        if part is None:
            raise RuntimeError("on purpose, in mid-stream")
        await send({"type": "http.response.body", "body": part, "more_body": place < len(parts)})
