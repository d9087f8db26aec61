"""The same applications for ASGI servers: `application`, which the environment variable APPLICATION names."""

import asyncio
import os

from apps import BIG, BODY, ROUNDS, fibonacci, summary

name = os.environ["APPLICATION"]


async def application(scope, receive, send):
    kind, body = b"text/plain", BODY
    if scope["type"] != "http":
        return
    if name == "sleep":
        await asyncio.sleep(0.01)
    elif name == "big":
        body = BIG
    elif name == "fib":
        body = str(fibonacci(ROUNDS)).encode()
    elif name == "json":
        posted, more = b"", True
        while more:
            message = await receive()
            posted += message.get("body", b"")
            more = message.get("more_body", False)
        kind, body = b"application/json", summary(posted)
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
