"""Sessions find their worker, whichever worker accepts the connection of a request."""

import contextlib
import errno
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading

import pytest

pytest.importorskip("syncless.shared.memory", reason="it is built where mutexes can be robust")
import syncless
from syncless.io import socket as cooperative
from syncless.server.affinity import Affinity
from syncless.shared import area
from syncless.shared.embedded import Memory
from syncless.wsgi import Server
from tests import needs
from tests.shortage import descriptors_left
from tests.supervised import Program
from tests.waiting import eventually

WSGI = """
import os
made = set()
def app(environ, start_response):
    body = environ["wsgi.input"].read()
    asked, new = environ.get("HTTP_X_SESSION", ""), []
    if environ["PATH_INFO"] == "/new":
        asked = environ["QUERY_STRING"]
        made.add(asked)
        new = [("X-Session", asked)]
    start_response("200 OK" if asked in made else "404 Not Found", [("X-Pid", str(os.getpid())), *new])
    return [f"{len(body)} {environ['REMOTE_ADDR']} {environ['REMOTE_PORT'] != ''}".encode()]
"""
ASGI = """
import os
made = set()
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body")
    asked, new = dict(scope["headers"]).get(b"x-session", b""), []
    if scope["path"] == "/new":
        asked = scope["query_string"]
        made.add(asked)
        new = [(b"x-session", asked)]
    headers = [(b"x-pid", str(os.getpid()).encode()), *new]
    await send({"type": "http.response.start", "status": 200 if asked in made else 404, "headers": headers})
    body = f"{size} {scope['client'][0]} {scope['client'][1] > 0}".encode()
    await send({"type": "http.response.body", "body": body})
"""
kinds = pytest.mark.parametrize("code", [WSGI, ASGI], ids=["wsgi", "asgi"])


@pytest.fixture
def four(tmp_path):
    """four(code, *options) -> a server with four workers and its metrics, all of which serve."""
    begun = []

    def begin(code, *options):
        (tmp_path / "app.py").write_text(code)
        begun.append(Program(tmp_path, ["-w", "4", "--metrics", "/metrics", *options]))
        assert eventually(lambda: len(running_workers(begun[0])) == 4)
        return begun[0]

    yield begin
    for each in begun:
        each.end()


def running_workers(running):
    """The metrics count those that serve."""
    number = r"syncless_workers (\d+)"
    return range(int(float(re.search(number, ask(running, "/metrics")[2].decode())[1])))


def counted(running, outcome):
    text = ask(running, "/metrics")[2].decode()
    return float(re.search(rf'syncless_affinity_requests_total{{outcome="{outcome}"}} (\S+)', text)[1])


def ask(running, path="/", body=None, connection=None, **fields):
    """(status, headers, body), by a connection of its own if none is given."""
    used = connection or http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    try:
        used.request(
            "POST" if body else "GET", path, body, {k.replace("_", "-"): v for k, v in fields.items()}
        )
        response = used.getresponse()
        return response.status, response.headers, response.read()
    finally:
        if connection is None:
            used.close()


def cookie_of(headers):
    return headers["Set-Cookie"].partition(";")[0]


def until_moved(running, ask_once):
    """Asks until some of the requests have arrived elsewhere."""
    ask_once()
    while counted(running, "moved") < 3:
        ask_once()


@kinds
def test_requests_with_the_cookie_go_to_the_worker_that_it_names(four, code):
    running = four(code, "--affinity", "cookie")
    _, headers, _ = ask(running, "/new?a")
    assert re.fullmatch(r"syncless_worker=[1-4]; Path=/; HttpOnly; SameSite=Lax", headers["Set-Cookie"])
    pid, cookie = headers["X-Pid"], cookie_of(headers)

    def once():
        status, told, body = ask(running, "/", b"x" * 100_000, Cookie=f"a=b; {cookie}", X_Session="a")
        assert (status, told["X-Pid"], told["Set-Cookie"]) == (200, pid, None)
        assert body == b"100000 127.0.0.1 True"

    until_moved(running, once)


def test_kept_connection_moves_for_each_session_that_comes_on_it(four):
    """As those of a proxy do."""
    running = four(WSGI, "--affinity", "cookie")
    made = {}
    while len(made) < 3:
        _, headers, _ = ask(running, "/new?a")
        made[cookie_of(headers)] = headers["X-Pid"]
    proxy = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
    for _ in range(3):
        for cookie, pid in made.items():
            status, headers, _ = ask(running, "/", b"x", connection=proxy, Cookie=cookie, X_Session="a")
            assert (status, headers["X-Pid"]) == (200, pid)
    proxy.close()
    assert counted(running, "moved") >= 6


def test_pipelined_requests_and_the_rest_of_a_body_move_along(four):
    running = four(WSGI, "--affinity", "cookie")
    _, headers, _ = ask(running, "/new?a")
    cookie = cookie_of(headers)
    head = f"HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nX-Session: a\r\n"

    def once():
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as client:
            first = f"POST /1 {head}Content-Length: 6\r\n\r\nabc"
            second = f"defPOST /2 {head}Content-Length: 1\r\n\r\nxGET /3 {head}Connection: close\r\n\r\n"
            client.sendall(first.encode())
            client.sendall(second.encode())
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.count(b"HTTP/1.1 200 OK") == 3, answer
        assert re.findall(rb"(\d) 127.0.0.1 True", answer) == [b"6", b"1", b"0"]

    until_moved(running, once)


@kinds
def test_field_that_the_application_has_given_tells_the_worker(four, code):
    running = four(code, "--affinity", "header:X-Session")
    pids = {}
    for number in range(8):
        status, headers, _ = ask(running, f"/new?{number}")
        assert status == 200 and headers["Set-Cookie"] is None
        pids[str(number)] = headers["X-Pid"]

    def once():
        for name, pid in pids.items():
            status, headers, _ = ask(running, "/", X_Session=name)
            assert (status, headers["X-Pid"]) == (200, pid)

    until_moved(running, once)
    assert ask(running, "/", X_Session="none")[0] == 404


def test_client_has_one_worker_and_a_trusted_proxy_tells_whose_it_is(four):
    running = four(WSGI, "--affinity", "client", "--trusted", "127.0.0.1")
    seen = {}

    def once():
        for number in range(20):
            _, headers, _ = ask(running, "/", X_Forwarded_For=f"10.0.0.{number}")
            seen.setdefault(number, set()).add(headers["X-Pid"])

    def shared_by_all():
        """One that has just started takes clients of others."""
        seen.clear()
        once()
        return len(set.union(*seen.values())) == 4

    assert eventually(shared_by_all)
    seen.clear()  # the last one may have started amid these
    until_moved(running, once)
    assert {len(pids) for pids in seen.values()} == {1}


def test_session_of_a_killed_worker_goes_on_elsewhere(four):
    """While its successor is being started, and afterwards with that one."""
    running = four(WSGI, "--affinity", "cookie")
    _, headers, _ = ask(running, "/new?a")
    cookie, pid = cookie_of(headers), int(headers["X-Pid"])
    os.kill(pid, signal.SIGKILL)
    for _ in range(20):
        status, headers, _ = ask(running, "/", Cookie=cookie, X_Session="a")
        assert status == 404 and int(headers["X-Pid"]) != pid
    assert eventually(lambda: ask(running, "/", Cookie=cookie)[1]["Set-Cookie"] is None)
    assert len({ask(running, "/", Cookie=cookie)[1]["X-Pid"] for _ in range(20)}) == 1


def test_no_request_is_lost_when_workers_are_reloaded(four):
    running, failures, end = four(WSGI, "--affinity", "cookie"), [], threading.Event()
    cookies = [f"syncless_worker={number}" for number in (1, 2, 3, 4)]

    def load(cookie):
        while not end.is_set():
            try:
                ask(running, "/", b"x", Cookie=cookie)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=load, args=(cookie,)) for cookie in cookies]
    for thread in threads:
        thread.start()
    for _ in range(2):
        before = running.children()
        running.process.send_signal(signal.SIGHUP)
        assert eventually(lambda before=before: not before & running.children())
    end.set()
    for thread in threads:
        thread.join()
    assert failures == [] and counted(running, "moved") > 0


def test_requests_wait_for_a_stopped_worker_until_there_are_too_many(four):
    """The next one is served where it arrived, and the others when the worker goes on."""
    running = four(WSGI, "--affinity", "cookie", "-l", "worker_stuck_seconds=600")
    _, headers, _ = ask(running, "/new?a")
    cookie, pid = cookie_of(headers), int(headers["X-Pid"])
    request = f"GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nX-Session: a\r\n\r\n".encode()
    os.kill(pid, signal.SIGSTOP)
    waiting = []
    try:
        while counted(running, "full") == 0:
            for _ in range(50):
                waiting.append(socket.create_connection(("127.0.0.1", running.port), timeout=60))
                waiting[-1].sendall(request)
        status, told, _ = ask(running, "/", Cookie=cookie, X_Session="a")
        assert status == 404 and int(told["X-Pid"]) != pid
        os.kill(pid, signal.SIGCONT)
        answers = [client.recv(65536) for client in waiting]
        assert {answer[:12] for answer in answers} == {b"HTTP/1.1 200", b"HTTP/1.1 404"}
        assert sum(answer.startswith(b"HTTP/1.1 200") for answer in answers) >= counted(running, "moved") > 0
    finally:
        os.kill(pid, signal.SIGCONT)
        for client in waiting:
            client.close()


def test_requests_over_tls_are_relayed_to_their_worker_until_it_is_killed(four, authority):
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    running = four(WSGI, "--affinity", "cookie", "--certfile", certfile, "--keyfile", keyfile, "--plain-http")
    clients = []

    def secure(path, body=None, **fields):
        """By a connection of its own, which stays open."""
        context = ssl._create_unverified_context()
        clients.append(http.client.HTTPSConnection("127.0.0.1", running.port, timeout=60, context=context))
        return ask(running, path, body, connection=clients[-1], **fields)

    status, headers, _ = secure("/new?a")
    assert status == 200 and headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Lax; Secure")
    pid, cookie = headers["X-Pid"], cookie_of(headers)
    while counted(running, "relayed") < 3:
        status, told, body = secure("/", b"x" * 100_000, Cookie=cookie, X_Session="a")
        assert (status, told["X-Pid"], body) == (200, pid, b"100000 127.0.0.1 True")
    assert counted(running, "moved") == 0
    os.kill(int(pid), signal.SIGKILL)
    here = []
    for client in clients:
        with contextlib.suppress(http.client.HTTPException, OSError):  # its own, or not yet known to be gone
            here.append(ask(running, connection=client, Cookie=cookie, X_Session="a")[0])
    assert here and set(here) <= {404, 503}
    assert eventually(lambda: ask(running, "/", Cookie=cookie)[1]["Set-Cookie"] is None)
    assert len({secure("/", Cookie=cookie)[1]["X-Pid"] for _ in range(8)} - {pid}) == 1
    for client in clients:
        client.close()


SOCKETIO = """
import os, socketio
sio = socketio.Server(async_mode="threading")
app = socketio.WSGIApp(sio)

@sio.event
def where(sid, data):
    return [os.getpid(), data]
"""


@pytest.mark.parametrize("transports", [["polling"], None], ids=["polling", "upgraded"])
def test_socketio_sessions_find_their_workers(four, transports):
    for module in ("socketio", "requests", "websocket", "simple_websocket"):
        pytest.importorskip(module, reason="Socket.IO's own client")
    import socketio

    running = four(SOCKETIO, "--affinity", "cookie")
    pids = set()
    for _ in range(8):
        with socketio.SimpleClient() as client:
            client.connect(f"http://127.0.0.1:{running.port}", transports=transports)
            told = [client.call("where", number) for number in range(5)]
            assert [number for _, number in told] == [0, 1, 2, 3, 4]
            assert len({pid for pid, _ in told}) == 1
            pids.add(told[0][0])
    assert transports is None or counted(running, "moved") > 0


SOCKETIO_CLIENT = """
let io
try { ({ io } = require("socket.io-client")) } catch { process.exit(42) }
async function session() {
  const options = { forceNew: true, withCredentials: true, rejectUnauthorized: false, reconnection: false }
  const socket = io(process.argv[1], options)
  await new Promise((resolve, reject) => socket.on("connect", resolve).on("connect_error", reject))
  const pids = new Set()
  for (let i = 0; i < 5; i++) pids.add((await socket.timeout(60000).emitWithAck("where", i))[0])
  while (socket.io.engine.transport.name != "websocket")
    await new Promise((resolve) => socket.io.engine.once("upgrade", resolve))
  for (let i = 0; i < 5; i++) pids.add((await socket.timeout(60000).emitWithAck("where", i))[0])
  socket.close()
  return pids.size
}
Promise.all(Array.from({ length: 12 }, session)).then((sizes) => console.log(...sizes))
"""


@pytest.mark.slow  # Node begins slowly
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_sessions_of_socketio_in_javascript_find_their_workers(four, authority, tls):
    """By polling, and then upgraded to a WebSocket."""
    for module in ("socketio", "simple_websocket"):
        pytest.importorskip(module, reason="Socket.IO's server")
    node = shutil.which("node") or pytest.skip("Node runs Socket.IO's client: install nodejs")
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    options = ["--certfile", certfile, "--keyfile", keyfile, "--plain-http"] if tls else []
    running = four(SOCKETIO, "--affinity", "cookie", *options)
    url = f"http{'s' if tls else ''}://127.0.0.1:{running.port}"
    told = subprocess.run([node, "-e", SOCKETIO_CLIENT, url], capture_output=True, text=True, timeout=150)
    if told.returncode == 42:
        pytest.skip("Socket.IO's client: npm install socket.io-client, into a folder of NODE_PATH")
    assert told.stdout.split() == ["1"] * 12, told.stderr
    assert counted(running, "relayed" if tls else "moved") > 0


MCP = """
import os
from mcp.server.mcpserver import MCPServer
server = MCPServer("where")

@server.tool()
def where() -> str:
    return str(os.getpid())

app = server.streamable_http_app()
"""
MCP_CLIENT = """
import asyncio, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

async def session():
    async with streamable_http_client(sys.argv[1]) as streams, ClientSession(*streams[:2]) as client:
        await client.initialize()
        return {(await client.call_tool("where", {})).content[0].text for _ in range(5)}

async def main():
    print(*[len(pids) for pids in await asyncio.gather(*(session() for _ in range(20)))])

asyncio.run(main())
"""


@pytest.mark.slow  # five processes import much
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_sessions_of_mcp_find_their_workers(four, tmp_path, authority, tls):
    needs.module("mcp", "its sessions are tested")
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    options = ["--certfile", certfile, "--keyfile", keyfile, "--plain-http"] if tls else []
    running = four(MCP, "--affinity", "header:Mcp-Session-Id", *options)
    url = f"http{'s' if tls else ''}://127.0.0.1:{running.port}/mcp"
    authority.ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    told = subprocess.run(
        [sys.executable, "-c", MCP_CLIENT, url],
        env={**os.environ, "SSL_CERT_FILE": str(tmp_path / "ca.pem")},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert told.stdout.split() == ["1"] * 20, told.stderr
    assert counted(running, "relayed" if tls else "moved") > 0


# -- its parts -----------------------------------------------------------------------------------------------


@pytest.fixture
def two():
    affinity = Affinity("cookie", 2)
    yield affinity
    affinity.close()


@pytest.mark.parametrize("rule", ["", "cookies", "header", "header:", "cookie:a", "client:x"])
def test_malformed_rule_is_told(rule):
    with pytest.raises(ValueError, match="affinity must be 'cookie', 'client' or 'header:NAME'"):
        Affinity(rule, 2)


@pytest.mark.parametrize(
    ("cookies", "number"),
    [
        ("syncless_worker=2", 2),
        ("a=1; syncless_worker=1; b", 1),
        *((f"syncless_worker={value}", 0) for value in ("", "0", "3", "x", "-1", "1 2", "9" * 9, "\u0661")),
        ("xsyncless_worker=1", 0),
        (";;=", 0),
    ],
)
def test_cookie_names_one_of_the_workers_or_none(two, cookies, number):
    assert two.named_in(cookies) == number
    two.number = 2
    assert bool(two.fields(cookies, False, [])) == (number != 2)


def test_request_for_which_there_is_no_room_stays(two):
    fd, other = os.pipe()
    try:
        sent = 0
        while two.send(2, fd, b"x" * 10_000):
            sent += 1
        assert sent > 2 and not two.send(2, fd, b"x" * (1 << 24))
        os.fstat(fd)
    finally:
        os.close(fd)
        os.close(other)


@pytest.fixture
def alone(monkeypatch):
    """That of one worker, which is this process."""
    made = Memory(1000 * 128, 1 << 16)
    for name in ("_memory", "_store"):
        monkeypatch.setattr(area, name, made)
    affinity = Affinity("cookie", 1)
    yield affinity
    affinity.close()


def turns(count=200):
    """The loop polls after 64 at the latest."""
    for _ in range(count):
        syncless.sleep(0)


@contextlib.contextmanager
def passed_on(affinity):
    """The client's end of a connection whose request another worker has read."""
    ours, theirs = cooperative.socketpair()
    head = json.dumps([0, "127.0.0.1", 1, False, False, None]).encode()
    with ours, theirs:
        assert affinity.send(1, theirs.fileno(), head + b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
        theirs.close()
        yield ours


def test_request_waits_until_there_is_a_descriptor_for_it(alone):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server = Server(app, port=0)
    alone.join(server, 1)
    server.start()
    with passed_on(alone) as client:
        with descriptors_left(0):
            turns()
        assert client.recv(12) == b"HTTP/1.1 200"
    server.stop()


def test_worker_that_stops_leaves_requests_to_its_successor(alone):
    """Both have one inbox. Whoever is about to end must take nothing from it."""
    begun, go_on = syncless.Event(), syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            begun.set()
            go_on.wait()
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server = Server(app, port=0)
    alone.join(server, 1)
    address = server.start().address

    def refused():
        with socket.socket() as client:
            return client.connect_ex(address) == errno.ECONNREFUSED

    with cooperative.create_connection(address) as slow, passed_on(alone) as early:
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        begun.wait()
        assert early.recv(12) == b"HTTP/1.1 200"
        stopping = syncless.spawn(server.stop)
        assert eventually(refused)
        with passed_on(alone):
            turns()
            go_on.set()
            stopping.join()
            assert alone.inbox.recv(100).startswith(b"[0, ")


def test_affinity_needs_workers(tmp_path):
    (tmp_path / "app.py").write_text(WSGI)
    running = Program(tmp_path, ["--affinity", "cookie"], serves=False)
    assert running.process.wait(60) == 2 and "add workers" in running.said()
    running.end()
