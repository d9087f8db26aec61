"""ASGI frameworks on our server, unchanged, over real sockets."""

import concurrent.futures
import http.client
import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from tests.programs import run_unchecked

pytestmark = pytest.mark.slow

SITES = {
    "starlette": """
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
import asyncio, time

async def index(request):
    return JSONResponse({"path": request.url.path, "query": dict(request.query_params)})

async def upload(request):
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return JSONResponse({"size": size})

async def events(request):
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n"
            await asyncio.sleep(0.01)
    return StreamingResponse(give(), media_type="text/event-stream")

async def pool(request):
    await run_in_threadpool(time.sleep, 0.01)
    return JSONResponse({"size": 0})

async def echo(websocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)

app = Starlette(routes=[
    Route("/", index), Route("/upload", upload, methods=["POST"]), Route("/events", events),
    Route("/pool", pool), WebSocketRoute("/ws", echo),
])
""",
    "fastapi": """
import asyncio, contextlib, time
from fastapi import BackgroundTasks, FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse

@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"shared": 1}

app = FastAPI(lifespan=lifespan)

@app.middleware("http")
async def around(request, call_next):
    response = await call_next(request)
    response.headers["x-around"] = "1"
    return response

@app.get("/")
async def index(request: Request):
    assert request.state.shared == 1
    return {"path": request.url.path, "query": dict(request.query_params)}

@app.post("/upload")
async def upload(request: Request):
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return {"size": size}

@app.get("/events")
async def events():
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n"
            await asyncio.sleep(0.01)
    return StreamingResponse(give(), media_type="text/event-stream")

pooled, blocked = [], []

def meet(present, number):
    present.append(number)
    while len(present) < number:
        time.sleep(0.05)
    return {"size": len(present)}

@app.get("/pool")
def pool():
    return meet(pooled, 400)

@app.get("/blocks")
async def blocks():
    return meet(blocked, 30)

@app.websocket("/ws")
async def echo(websocket: WebSocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)
""",
    "quart": """
import asyncio
from quart import Quart, request, websocket
app = Quart(__name__)
app.config["MAX_CONTENT_LENGTH"] = None

@app.get("/")
async def index():
    return {"path": request.path, "query": dict(request.args)}

@app.post("/upload")
async def upload():
    size = 0
    async for piece in request.body:
        size += len(piece)
    return {"size": size}

@app.get("/events")
async def events():
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n".encode()
            await asyncio.sleep(0.01)
    return give(), {"Content-Type": "text/event-stream"}

@app.websocket("/ws")
async def echo():
    while True:
        await websocket.send(await websocket.receive())
""",
    "litestar": """
import asyncio
from litestar import Litestar, Request, get, post, websocket_listener
from litestar.response import Stream

@get("/")
async def index(request: Request) -> dict:
    return {"path": request.url.path, "query": {key: value for key, value in request.query_params.items()}}

@post("/upload", status_code=200, request_max_body_size=None)
async def upload(request: Request) -> dict:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return {"size": size}

@get("/events")
async def events() -> Stream:
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n"
            await asyncio.sleep(0.01)
    return Stream(give(), media_type="text/event-stream")

@websocket_listener("/ws")
async def echo(data: str) -> str:
    return data

app = Litestar([index, upload, events, echo])
""",
    "django": """
import asyncio, json, os
from django.conf import settings
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", DEBUG=False,
                   DATA_UPLOAD_MAX_MEMORY_SIZE=None)
import django
django.setup()
from django.core.asgi import get_asgi_application
from django.http import JsonResponse, StreamingHttpResponse
from django.urls import path

async def index(request):
    return JsonResponse({"path": request.path, "query": request.GET.dict()})

def upload(request):
    return JsonResponse({"size": len(request.body)})

async def events(request):
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n"
            await asyncio.sleep(0.01)
    return StreamingHttpResponse(give(), content_type="text/event-stream")

urlpatterns = [path("", index), path("upload", upload), path("events", events)]
site = get_asgi_application()
try:
    from channels.generic.websocket import AsyncWebsocketConsumer
    from channels.routing import ProtocolTypeRouter, URLRouter

    class Echo(AsyncWebsocketConsumer):
        async def receive(self, text_data=None, bytes_data=None):
            await self.send(text_data=text_data, bytes_data=bytes_data)

    app = ProtocolTypeRouter({"http": site, "websocket": URLRouter([path("ws", Echo.as_asgi())])})
except ImportError:
    app = site
""",
    "blacksheep": """
import asyncio
from blacksheep import Application, Response, StreamedContent, WebSocket, get, json, post, ws
from blacksheep.server.websocket import WebSocketDisconnectError
app = Application()

@get("/")
async def index(request):
    return json({"path": request.path, "query": {key: value[0] for key, value in request.query.items()}})

@post("/upload")
async def upload(request):
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return json({"size": size})

@get("/events")
async def events():
    async def give():
        for i in range(3):
            yield f"data: {i}\\n\\n".encode()
            await asyncio.sleep(0.01)
    return Response(200, content=StreamedContent(b"text/event-stream", give))

@ws("/ws")
async def echo(websocket: WebSocket):
    await websocket.accept()
    try:
        while True:
            await websocket.send_text(await websocket.receive_text())
    except WebSocketDisconnectError:
        pass
""",
    "socketio": """
import socketio
server = socketio.AsyncServer(async_mode="asgi")
app = socketio.ASGIApp(server)

@server.event
async def say(sid, data):
    await server.emit("said", data, to=sid)
    return "heard " + data
""",
}


class Site:
    def __init__(self, folder, name):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install {name}")
        self.name = name
        (folder / f"{name}_site.py").write_text(SITES[name])
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "syncless",
            f"{name}_site:app",
            "--bind",
            "127.0.0.1:0",
        ]
        self.process = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0", "--limit", "body_bytes=200000000"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.port = int(re.search(r":(\d+)/", line)[1])

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            data = response.read()
            assert response.status == 200, data
            return data
        finally:
            connection.close()

    def end(self):
        self.process.terminate()
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0 and "Traceback" not in said, said


@pytest.fixture(params=[name for name in SITES if name != "socketio"], scope="module")
def site(request, tmp_path_factory):
    running = Site(tmp_path_factory.mktemp("site"), request.param)
    yield running
    running.end()


def test_request(site):
    for _ in range(3):
        found = json.loads(site.ask("GET", "/?a=b%20c"))
        assert found == {"path": "/", "query": {"a": "b c"}}


def test_upload_of_100_megabytes(site):
    piece = os.urandom(1 << 20)
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=60)
    connection.putrequest("POST", "/upload")
    connection.putheader("Content-Length", str(100 << 20))
    connection.endheaders()
    for _ in range(100):
        connection.send(piece)
    assert json.loads(connection.getresponse().read()) == {"size": 100 << 20}
    connection.close()


def test_server_sent_events(site):
    assert site.ask("GET", "/events") == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_websocket(site, compression):
    client = pytest.importorskip("websockets.sync.client", reason="pip install websockets")
    if site.name == "django" and importlib.util.find_spec("channels") is None:
        pytest.skip("channels is not installed: pip install channels")
    with client.connect(f"ws://127.0.0.1:{site.port}/ws", compression=compression) as connection:
        for message in ("hello", "x" * 100000):
            connection.send(message)
            assert connection.recv() == message


@pytest.fixture(scope="module")
def fastapi(tmp_path_factory):
    running = Site(tmp_path_factory.mktemp("site"), "fastapi")
    yield running
    running.end()


def test_synchronous_endpoints_wait_in_tasklets(fastapi):
    """More at once than anyio and asyncio have threads."""
    connections = [http.client.HTTPConnection("127.0.0.1", fastapi.port, timeout=60) for _ in range(400)]
    for connection in connections:
        connection.request("GET", "/pool")
    sizes = {json.loads(connection.getresponse().read())["size"] for connection in connections}
    for connection in connections:
        connection.close()
    assert sizes == {400}


def test_blocking_call_in_a_coroutine_holds_up_its_own_request(fastapi):
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: fastapi.ask("GET", "/blocks"), range(30)))
    assert answers == [b'{"size":30}'] * 30  # each has waited for all the others


@pytest.mark.parametrize("transport", ["polling", "websocket"])
def test_socketio(tmp_path, transport):
    site = Site(tmp_path, "socketio")
    script = f"""
import asyncio, socketio

async def main():
    heard = asyncio.Queue()
    client = socketio.AsyncClient()
    client.on("said", heard.put)
    await client.connect("http://127.0.0.1:{site.port}", transports=["{transport}"])
    assert await client.call("say", "hello") == "heard hello"
    assert await heard.get() == "hello"
    await client.disconnect()

asyncio.run(main())
"""
    if importlib.util.find_spec("aiohttp") is None:
        site.end()
        pytest.skip("the client needs aiohttp: pip install aiohttp")
    done = run_unchecked(script)
    site.end()
    assert done.returncode == 0, done.stderr
