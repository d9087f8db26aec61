"""Where there is no room for another connection.

Without descriptors, connections that have sent no whole head make room at once, oldest first. Without memory,
only the connection that needs it is lost.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest

import syncless
from tests import virtualtime
from tests.programs import run_unchecked
from tests.waiting import eventually

pytest.importorskip("syncless.native.threads", reason="native handlers need Linux")

from tests.native.conftest import HERE as NATIVE
from tests.native.conftest import compiled

TESTS = pathlib.Path(__file__).parent.parent

SERVER = """
import resource
from syncless.wsgi import serve

def app(environ, start_response):
    start_response("200 OK", [("Connection", "close")])
    return [b"hello"]

resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
serve(app, bind=["127.0.0.1:0", "127.0.0.1:0"], defer_accept=False, head_seconds=600)
"""

# The request's query says which allocation after it fails, once.
FORGETFUL = """
import os, _testcapi
from syncless.wsgi import serve

def app(environ, start_response):
    _testcapi.remove_mem_hooks()
    start_response("200 OK", [("Connection", "close")])
    after = environ["QUERY_STRING"]
    if after:
        _testcapi.set_nomemory(int(after), int(after) + 1)
        return [b""]
    return [str(len(os.listdir("/proc/self/fd"))).encode()]

serve(app, bind="127.0.0.1:0", defer_accept=False)
"""

# Calls of the system fail: in a start, while connections are accepted, and in exchanges.
REFUSED_CALLS = """
import asyncio, ctypes, errno, gc, io, os, sys
import syncless, syncless.asyncio
from syncless import native
from syncless.http.acceptor import Acceptor, join, take
from syncless.io import socket
from syncless.wsgi import Server
from tests.waiting import eventually

SHORT = errno.EMFILE, errno.ENFILE, errno.ENOMEM
library = ctypes.CDLL(None)
hello = native.load(sys.argv[1], "hello")
log = io.StringIO()

def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]

def wsgi(**options):
    return Server(app, port=0, defer_accept=False, error_log=log, **options).start()

def mixed():
    return wsgi(native={"/hello": hello}, native_threads=1)

def descriptors():
    gc.collect()
    return set(os.listdir("/proc/self/fd"))

class Failing:
    "So many calls pass, and the next one fails; whether that is still to come is told afterwards."
    def __init__(self, name, after, error):
        self.chosen = name.encode(), ctypes.c_long(after), ctypes.c_long(1), error
    def __enter__(self):
        library.fail_calls(*self.chosen)
        return self
    def __exit__(self, *_):
        self.left = library.failures_left()
        library.fail_calls(b"", ctypes.c_long(0), ctypes.c_long(0), 0)

def each_in_turn(name, error):
    "Failing() for each call of that name that is made while it is there."
    failed = left = 0
    while not left:
        yield (failing := Failing(name, failed, error))
        left, failed = failing.left, failed + 1
    print(name, errno.errorcode[error], failed - 1)

def start_fails(start, name, error):
    for failing in each_in_turn(name, error):
        before, server = descriptors(), None
        try:
            with failing:
                server = start()
        except OSError as seen:
            assert seen.errno == error, (name, seen)
        if server:
            server.close() if start is syncless.asyncio.new_event_loop else server.stop()
            del server
        assert descriptors() == before, (start, failing.chosen)

for start in wsgi, mixed:
    start().stop()
for name in "socket", "epoll_create1", "eventfd", "epoll_ctl", "pipe2":
    for error in SHORT:
        for start in wsgi, mixed, syncless.asyncio.new_event_loop:
            start_fails(start, name, error)

def ask(path):
    "Two requests, the head of the first in halves."
    with socket.create_connection(server.address, timeout=60) as client:
        client.sendall(b"GET %s HTTP/1.1\\r\\n" % path)
        syncless.sleep(0.002)
        client.sendall(b"Host: a\\r\\n\\r\\nGET %s HTTP/1.1\\r\\n" % path)
        client.sendall(b"Host: a\\r\\nConnection: close\\r\\n\\r\\n")
        return b"".join(iter(lambda: client.recv(1000), b"")).count(b"200 OK")

def nothing_is_open():
    return not any(server.census().values())

for start, paths in (wsgi, [b"/"]), (mixed, [b"/", b"/hello"]):
    server = start()
    for path in paths:
        assert ask(path) == 2 and eventually(nothing_is_open)
        before = descriptors()
        for error in (*SHORT, errno.ENOBUFS):
            with Failing("accept4", 0, error) as failing:
                assert ask(path) == 2
            assert not failing.left
        meant = ("epoll_ctl", errno.ENOMEM), ("epoll_ctl", errno.ENOSPC), ("eventfd", errno.ENFILE)
        for name, error in meant:
            for failing in each_in_turn(name, error):
                with failing:
                    try:
                        ask(path)
                    except OSError:
                        pass  # of either end
                assert ask(path) == 2
                assert eventually(lambda: nothing_is_open() and descriptors() == before), failing.chosen
    server.stop()
server, sock = wsgi(), socket.socket()      # connections move to another listener of the same socket
(here,) = server.listeners
there = server.listener_for(server.application_at(server.address), server.address, False)
join(here, there)
acceptor = Acceptor(there, sock.fileno())
acceptor.rest()
for failing in each_in_turn("epoll_ctl", errno.ENOSPC):
    clients = [socket.create_connection(server.address, timeout=60) for _ in range(3)]
    assert eventually(lambda: here.connections == 3)
    with failing:
        assert take(here, there) == 3 and here.connections == 0 and there.connections >= 2
    for client in clients:
        client.close()
    assert eventually(lambda: there.connections == 0)
acceptor.close()
there.close()
server.stop()
sock.close()
assert "cannot accept connections: Too many open files" in log.getvalue()
assert "cannot wait for a client: " in log.getvalue()
assert "Traceback" not in log.getvalue(), log.getvalue()

async def main():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    async def ask():
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\\n")
        try:
            return await reader.read()
        finally:
            writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    before = descriptors()
    assert await ask() == b"hello\\n"
    for error in (*SHORT, errno.ENOBUFS):
        with Failing("accept4", 0, error) as failing:
            assert await ask() == b"hello\\n"
        assert not failing.left
        for name in "socket", "epoll_ctl":
            for failing in each_in_turn(name, error):
                with failing:
                    try:
                        await ask()
                    except OSError:
                        pass
                assert await ask() == b"hello\\n"
                while descriptors() != before:
                    await asyncio.sleep(0)
    server.close()

loop = syncless.asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
"""

OPENINGS = {
    "silent": b"",
    "half-sent": b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: half of a",
}


@pytest.fixture
def crowded(start):
    """A server in a process of its own with 60 descriptors and two ports: (ports, connect(port), process)."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    ports = [int(process.stdout.readline().split(":")[2].split("/")[0]) for _ in range(2)]

    def connect(port):
        class At:
            address = ("127.0.0.1", port)

        return start.client(At)

    yield ports, connect, process
    process.kill()
    process.communicate()


@pytest.mark.realtime("how soon another process accepts is measured")
@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_clients_are_served_while_others_hold_all_descriptors(crowded, opening, elsewhere):
    """Also where those have come to another port of the server."""
    ports, connect, process = crowded
    others = [connect(ports[0]) for _ in range(300)]
    for other in others:
        other.send(OPENINGS[opening])
    began = time.monotonic()
    for _ in range(200):
        with connect(ports[elsewhere]) as client:
            assert client.get()[0] == 200
    assert time.monotonic() - began < 6, "it is not one connection in 50 ms"
    others[-1].send(b"\r\n\r\n" if OPENINGS[opening] else b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert others[-1].response()[0] == 200, "the oldest have made room, and no more of them than was needed"
    process.kill()
    assert process.stderr.read().count("cannot accept") <= 2, "said once for each port"


def test_a_lack_of_memory_costs_one_connection_at_most(start):
    """Wherever it comes while a connection is accepted, read, answered or closed."""
    pytest.importorskip("_testcapi")
    with subprocess.Popen(
        [sys.executable, "-c", FORGETFUL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:

        class Server:
            address = ("127.0.0.1", int(process.stdout.readline().split(":")[2].split("/")[0]))

        def open_descriptors():
            with start.client(Server) as client:
                return client.get()[2]

        try:
            before = open_descriptors()
            for after in range(100):
                for query in after, "":  # the second one meets the shortage, if the first has not
                    with start.client(Server) as client, contextlib.suppress(ConnectionError):
                        client.get(f"/?{query}")
                assert open_descriptors() == before, f"after allocation {after} failed"
        finally:
            process.kill()
        log = process.communicate()[1]
    assert "cannot accept connections: Cannot allocate memory" in log


@pytest.mark.skipif(not virtualtime.AVAILABLE, reason="calls can be replaced where glibc is")
def test_a_call_that_the_system_refuses_costs_one_connection_at_most(tmp_path):
    """Each call that makes a descriptor, or waits for one, fails once: a start gives everything back and says
    why, a server goes on."""
    preloaded = compiled(TESTS / "failing_calls.c", tmp_path / "failing_calls.so")
    handlers = compiled(NATIVE / "handlers.c", tmp_path / "handlers.so")
    program = f"import sys; sys.argv.append({str(handlers)!r})\n" + REFUSED_CALLS
    before = os.environ.get("LD_PRELOAD", "")
    done = run_unchecked(program, cwd=TESTS.parent, env={**os.environ, "LD_PRELOAD": f"{before} {preloaded}"})
    assert done.returncode == 0, done.stderr
    assert sum(int(line.split()[2]) for line in done.stdout.splitlines()) > 40


@pytest.mark.virtual_time
@pytest.mark.parametrize("opening", OPENINGS)
def test_heads_make_room_where_connections_are_limited(start, opening):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [b"ok"]

    server = start(app, connections=3, defer_accept=False)
    others = [start.client(server) for _ in range(3)]
    for other in others:
        other.send(OPENINGS[opening])
        syncless.sleep(0.01)
    assert eventually(lambda: server.census()["connections"] == 3)
    assert start.client(server).get()[0] == 200
    assert others[0].at_end()
    assert start.client(server).get()[0] == 200
    assert server.census()["connections"] == 3
