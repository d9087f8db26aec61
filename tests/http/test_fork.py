"""os.fork() in an application where both sides return: the parent answers, and the child's process ends with
its request."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.programs import run_unchecked
from tests.waiting import eventually

APP = """
import json, os, signal, sys, time
import syncless
from syncless.wsgi import serve

children = {}

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/children":
        for pid in children:
            if children[pid] == "lives":
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    children[pid] = os.waitstatus_to_exitcode(status)
        start_response("200 OK", [])
        return [json.dumps(children).encode()]
    pid = os.fork()
    if pid:
        children[pid] = "lives"
    elif path == "/raises":
        raise ValueError("of the child")
    elif path == "/exits":
        sys.exit(3)
    elif path == "/stays":
        syncless.sleep(1000)
    elif path == "/waits":
        syncless.sleep(0.01)
    if path == "/body":
        body = environ["wsgi.input"].read()
    else:
        body = ("parent" if pid else "child").encode()
    write = start_response("200 OK", [])
    if path == "/writes":
        write(body[:3])
        body = body[3:]
    return (bytes([byte]) for byte in body) if path == "/streams" else [body]

with open("errors", "w") as errors:
    serve(app, bind=["127.0.0.1:0", "unix:socket"], error_log=errors)
"""


@pytest.fixture
def forking(tmp_path):
    """A server in a process of its own: (port, children()); children() gives {pid: exit status or
    "lives"}."""
    process = subprocess.Popen(
        [sys.executable, "-c", APP], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    port = int(process.stdout.readline().split(":")[2].split("/")[0])

    def children():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/children")
        found = json.loads(connection.getresponse().read())
        connection.close()
        return {int(pid): status for pid, status in found.items()}

    yield port, children
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def exchange(port, data):
    """All bytes that come until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(data)
        return sock.makefile("rb").read()


def bodies(data):
    """The bodies of responses that have Content-Length or chunks."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n"), head
        if b"chunked" in head:
            chunks, _, data = data.partition(b"0\r\n\r\n")
            lines = chunks.split(b"\r\n")
            found.append(b"".join(lines[1::2]))
        else:
            size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            found.append(data[:size])
            data = data[size:]
    return found


def get(path, headers=""):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode()


@pytest.mark.parametrize("path", ["/", "/waits", "/streams", "/writes"])
def test_each_request_gets_one_answer_and_children_end(forking, path):
    port, children = forking
    answer = exchange(port, get(path) * 3 + get(path, "Connection: close\r\n"))
    assert bodies(answer) == [b"parent"] * 4
    assert eventually(lambda: list(children().values()) == [0] * 4), children()


def test_a_kept_connection_goes_on_after_a_fork(forking):
    port, children = forking
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(3):
        connection.request("GET", "/")
        assert connection.getresponse().read() == b"parent"
        assert eventually(lambda: "lives" not in children().values())
    connection.close()
    assert list(children().values()) == [0] * 3


def test_forked_child_that_goes_on_holds_no_connection(forking):
    port, _children = forking
    with socket.create_connection(("127.0.0.1", port), timeout=60) as other:
        other.sendall(get("/children"))
        assert other.recv(1000)
        assert bodies(exchange(port, get("/stays", "Connection: close\r\n"))) == [b"parent"]
        other.sendall(get("/children", "Connection: close\r\n"))
        assert other.makefile("rb").read().endswith(b'"lives"}')


def test_the_child_takes_no_byte_of_the_parents_body(forking):
    port, children = forking
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nConnection: close\r\n\r\nabc")
        assert eventually(lambda: 0 in children().values())
        sock.sendall(b"def")
        assert bodies(sock.makefile("rb").read()) == [b"abcdef"]
    assert bodies(
        exchange(port, b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
    ) == [b"abc"]
    assert eventually(lambda: list(children().values()) == [0, 0])


def test_how_the_child_ends_is_its_exit_status(forking, tmp_path):
    port, children = forking
    assert bodies(exchange(port, get("/raises") + get("/exits", "Connection: close\r\n"))) == [b"parent"] * 2
    assert eventually(lambda: list(children().values()) == [1, 3])
    assert "ValueError: of the child" in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_that_stops_a_server_ends_a_child(forking, tmp_path, number):
    """It is no server: it dies, as a program without a handler does, and takes nothing of the parent's
    away."""
    port, children = forking
    assert bodies(exchange(port, get("/stays", "Connection: close\r\n"))) == [b"parent"]
    (child,) = children()
    os.kill(child, number)
    assert eventually(lambda: children() == {child: -number}), children()
    assert (tmp_path / "socket").exists()


def test_stop_in_a_child_takes_nothing_of_the_parents_away(tmp_path):
    """A program forks beside its server, and the child leaves its `with` block."""
    program = """
import os, sys, syncless
from syncless.io import socket
from syncless.wsgi import Server

def app(environ, start_response):
    start_response("200 OK", [])
    return [b"parent"]

def ask(address):
    client = socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.socket()
    client.settimeout(60)
    client.connect(address)
    def get():
        client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        return client.recv(1000)[-6:]
    return client, get

with Server(app, bind=["127.0.0.1:0", "unix:socket"], access_log="log") as server:
    clients = [ask(address) for address in server.addresses]
    print(*[get() for _, get in clients])
    pid = os.fork()
    if pid:
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        clients += [ask(address) for address in server.addresses]
        print(*[get() for _, get in clients], flush=True)
if not pid:
    os._exit(7 if server.census() == {} else 8)
"""
    done = run_unchecked(program, cwd=tmp_path)
    assert done.stdout.splitlines() == ["b'parent' b'parent'", "7", "b'parent' " * 3 + "b'parent'"], (
        done.stderr
    )
    assert (tmp_path / "log").read_text().count("GET /") == 6
