"""Where there is no room for another connection.

Without descriptors, connections that have sent no whole head make room at once, oldest first. Without memory,
only the connection that needs it is lost.
"""

import contextlib
import subprocess
import sys
import time

import pytest

import syncless
from tests.waiting import eventually

SERVER = """
import os, resource, sys
from syncless.wsgi import serve

def app(environ, start_response):
    start_response("200 OK", [("Connection", "close")])
    return [str(len(os.listdir("/proc/self/fd"))).encode()]

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
