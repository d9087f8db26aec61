"""The same applications for ASGI servers: `application`, which the environment variable APPLICATION names."""

import asyncio
import os

from apps import BIG, BODY, ROUNDS, fibonacci, summary


async def answer(send, body, kind=b"text/plain"):
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def hello(receive, send):
    await answer(send, BODY)


async def sleep(receive, send):
    await asyncio.sleep(0.01)
    await answer(send, BODY)


async def big(receive, send):
    await answer(send, BIG)


async def fib(receive, send):
    await answer(send, str(fibonacci(ROUNDS)).encode())


async def json(receive, send):
    posted, more = b"", True
    while more:
        message = await receive()
        posted += message.get("body", b"")
        more = message.get("more_body", False)
    await answer(send, summary(posted), b"application/json")


def http(respond):
    """An application that answers each HTTP request, and nothing else."""

    async def application(scope, receive, send):
        if scope["type"] == "http":
            await respond(receive, send)

    return application


async def echo(scope, receive, send):
    """A WebSocket that sends back each message."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "bytes": message["bytes"]})


def fastapi(synchronous=False):
    """Hello by FastAPI. The synchronous endpoint sleeps 10 ms, and 1,000 of them may wait at once."""
    import contextlib
    import time

    import anyio.to_thread
    from fastapi import FastAPI

    @contextlib.asynccontextmanager
    async def lifespan(app):
        if os.environ.get("TOKENS"):
            anyio.to_thread.current_default_thread_limiter().total_tokens = int(os.environ["TOKENS"])
        yield

    app = FastAPI(lifespan=lifespan)

    async def index():
        return {"hello": "world"}

    def sleeping():
        time.sleep(0.01)
        return {"hello": "world"}

    app.get("/")(sleeping if synchronous else index)
    return app


def calling(kept):
    """FastAPI with a blocking request to the server of the environment variable UPSTREAM in `async def`; by a
    session of its own for each call, or by one that keeps its connections."""
    import requests
    from fastapi import FastAPI
    from requests.adapters import HTTPAdapter

    app, upstream, get = FastAPI(), os.environ["UPSTREAM"], requests.get
    if kept:
        session = requests.Session()
        session.mount("http://", HTTPAdapter(pool_maxsize=500))
        get = session.get

    @app.get("/")
    async def index():
        return get(upstream).json()

    return app


named = {
    "echo": lambda: echo,
    "fastapi": fastapi,
    "fastapi sync": lambda: fastapi(True),
    "fastapi requests": lambda: calling(kept=False),
    "fastapi session": lambda: calling(kept=True),
    **dict.fromkeys(("logged", "http2", "http2 tls", "tls"), lambda: http(hello)),
    "http2 big": lambda: http(big),
    **{each.__name__: lambda each=each: http(each) for each in (hello, sleep, big, fib, json)},
}
application = named[os.environ["APPLICATION"]]()
