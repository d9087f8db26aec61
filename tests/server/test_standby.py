"""Threads that stand by: while one is held in C or in Python, others' requests are answered by the next."""

import itertools
import os
import random
import re
import signal
import socket as blocking
import struct
import sys
import threading
import time
import types

import pytest

import syncless
from syncless._core.poll.backends import BACKENDS
from syncless.http.acceptor import Acceptor, join, take
from syncless.io import socket
from syncless.server.lanes import standby
from syncless.server.lanes.lane import add_up
from syncless.wsgi import Server
from tests import needs
from tests.plugin import Client
from tests.programs import check, run_unchecked
from tests.waiting import eventually

pytestmark = pytest.mark.skipif("epoll" not in BACKENDS, reason="threads stand by where there is epoll")

APP = """
import ctypes, mmap, os, _thread

libc = ctypes.CDLL(None)
with open("flags", "r+b") as file:
    flags = mmap.mmap(file.fileno(), 0)

def begin(number):                      # by a call that lets no other run before the hold
    libc.close(libc.creat(b"begun" + number.encode(), 0o600))

def wait(number):                       # in C, without the interpreter's lock, until the gate is written to
    gate = libc.open(b"gate" + number.encode(), os.O_RDWR)
    while libc.read(gate, ctypes.create_string_buffer(1), 1) < 1:
        pass                            # a signal ends the call
    libc.close(gate)

class Holds:
    def __del__(self):
        begin("0")
        wait("0")

def app(environ, start_response):
    kind, _, number = environ["PATH_INFO"][1:].partition("/")
    if kind == "hold":
        begin(number)
        wait(number)
    elif kind == "spin":                # in Python
        begin(number)
        while not flags[int(number)]:
            pass
    elif kind == "leave":               # what holds the loop lives until the request is forgotten
        environ["holds"] = Holds()
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("X-Thread", str(_thread.get_native_id()))])
    return [environ["PATH_INFO"].encode() + b" " + body]
"""

SHARED = """
import _thread, queue, socket, sqlite3, sys, threading
import syncless

file = open(__file__)
database = sqlite3.connect(":memory:")
database.execute("create table seen (number)")
pool, lock, passed = syncless.Pool(2), threading.Lock(), queue.Queue()
main = _thread.get_native_id()

def count():
    database.execute("insert into seen values (1)")
    return database.execute("select count(*) from seen").fetchone()[0] > 0

def read():
    file.seek(0)
    return "syncless" in file.read()

def pass_on():
    with lock:
        passed.put(True)
        return passed.get()

USES = dict(
    names=lambda: len(socket.getaddrinfo("localhost", 80)) > 0,
    run_in_thread=lambda: syncless.run_in_thread(_thread.get_native_id) != _thread.get_native_id(),
    pool=lambda: pool.spawn(_thread.get_native_id).result() == _thread.get_native_id(),
    sqlite3=count,
    files=read,
    queue=pass_on,
)

plain = app

def app(environ, start_response):
    if environ["PATH_INFO"].startswith("/use/"):
        assert USES[environ["PATH_INFO"][5:]]()
    return plain(environ, start_response)
"""


EVENTS = """
async def events(scope, receive, send):
    if scope["type"] == "lifespan":
        raise NotImplementedError
    thread = str(_thread.get_native_id()).encode()
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": thread})
        return
    body, more = b"", True
    while more:
        event = await receive()
        body += event["body"]
        more = event.get("more_body")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-thread", thread)]})
    await send({"type": "http.response.body", "body": scope["path"].encode() + b" " + body})
"""

ASYNCIO = """
import asyncio

plain = app

def app(environ, start_response):
    if environ["PATH_INFO"] == "/asyncio":
        asyncio.get_event_loop_policy().get_event_loop().run_until_complete(asyncio.sleep(0))
    return plain(environ, start_response)
"""


class Held:
    """A program whose application can be held, and released."""

    def __init__(self, program, folder, *options, threads=1, more=""):
        self.folder = folder
        (folder / "flags").write_bytes(bytes(4096))
        for number in range(4):
            os.mkfifo(folder / f"gate{number}")
        code = f"{APP}\n{more}".replace("{", "{{").replace("}", "}}")
        self.program = program("--standby", str(threads), *options, code=code)
        self.clients = []

    def client(self):
        self.clients.append(Client(("127.0.0.1", self.program.port)))
        return self.clients[-1]

    def begin(self, client, kind="hold", number=0):
        """The application is held by a request of this client."""
        begun = self.folder / f"begun{number}"
        begun.unlink(missing_ok=True)
        client.send(f"GET /{kind}/{number} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert eventually(begun.exists)

    def open_gate(self, number=0):
        """Whether somebody stood there."""
        try:
            gate = os.open(self.folder / f"gate{number}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.write(gate, b"x")
        os.close(gate)
        return True

    def release(self, number=0, kind="hold"):
        if kind == "hold":
            assert eventually(lambda: self.open_gate(number))
        else:
            with open(self.folder / "flags", "r+b") as flags:
                flags.seek(number)
                flags.write(b"x")

    def close(self):
        for client in self.clients:
            client.close()


@pytest.fixture
def held(program, tmp_path):
    made = []

    def make(*options, **more):
        made.append(Held(program, tmp_path, *options, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def thread_of(client, path="/a"):
    status, headers, body = client.get(path)
    assert status == 200 and body == f"{path} ".encode()
    return headers["x-thread"]


@pytest.mark.parametrize("kind", ["hold", "spin"])
def test_others_are_answered_while_a_request_holds_its_thread(held, kind):
    server = held()
    first, kept = server.client(), server.client()
    before = thread_of(kept)
    server.begin(first, kind)
    relieved = thread_of(kept)
    assert relieved != before
    assert thread_of(server.client()) == relieved  # a new connection
    assert thread_of(kept) == relieved
    server.release(kind=kind)
    status, headers, body = first.response()
    assert (status, headers["x-thread"], body) == (200, before, f"/{kind}/0 ".encode())
    assert thread_of(first) in (before, relieved)
    assert eventually(lambda: thread_of(first) == relieved)  # it follows
    # AddressSanitizer puts functions of its own before those of libc
    function, line, cure = r"(_*read\w* in libc|\w+ in libasan).*, ", r"wait\(\)", "it waits"
    if kind == "spin":
        function, line, cure = "", r"app\(\)", "it computes in Python"
    place = f"{function}/.*app.py:\\d+ in {line}"
    words = f"a thread was held for \\d+ ms by {place}; .* Fix: {cure}"
    assert eventually(lambda: re.search(words, server.program.said())), server.program.said()


def test_each_thread_can_relieve_the_other(held):
    server = held()
    kept = server.client()
    seen = [thread_of(kept)]
    for _ in range(6):
        holding = server.client()
        server.begin(holding)
        seen.append(thread_of(kept))
        server.release()
        assert holding.response()[0] == 200
    assert len(set(seen)) == 2 and all(one != other for one, other in itertools.pairwise(seen))
    places = re.findall(r"a thread was held for \d+ ms by (.*?);", server.program.said())
    assert places and len(places) == len(set(places))


def test_as_many_holds_as_threads_stand_by_are_covered(held):
    server = held(threads=2)
    kept = server.client()
    holding = [server.client() for _ in range(3)]
    threads = [thread_of(kept)]
    for number in range(2):
        server.begin(holding[number], number=number)
        threads.append(thread_of(kept))
    assert len(set(threads)) == 3
    server.begin(holding[2], number=2)
    kept.send(b"GET /b HTTP/1.1\r\nHost: a\r\n\r\n")
    server.release(0)  # the first that is free serves
    status, headers, _ = kept.response()
    assert status == 200 and headers["x-thread"] == threads[0]
    for number in (1, 2):
        server.release(number)
    assert [client.response()[0] for client in holding] == [200] * 3


MIXED = ("--mount", "/asgi=app:events")


def test_asgi_applications_beside_others_stay_on_their_loop(held):
    """Requests for them wait, wherever they come; then the first thread is the one that serves again."""
    server = held(*MIXED, more=EVENTS)
    holding, kept, other = (server.client() for _ in range(3))
    home = thread_of(kept, "/asgi/a")
    assert thread_of(other) == home
    server.begin(holding)
    relieved = thread_of(kept)
    assert relieved != home
    new = server.client()
    kept.send(
        b"GET /b HTTP/1.1\r\nHost: a\r\n\r\nPOST /asgi/c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"
    )
    new.send(b"GET /asgi/d HTTP/1.1\r\nHost: a\r\n\r\nGET /e HTTP/1.1\r\nHost: a\r\n\r\n")
    assert kept.response()[1]["x-thread"] == relieved
    assert {thread_of(client) for client in (other, server.client())} == {relieved}
    new.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        new.response()
    new.sock.settimeout(60)
    server.release()
    kept.send(b"cde")
    assert holding.response()[0] == 200
    for client, body in ((kept, b"/asgi/c abcde"), (new, b"/asgi/d ")):
        status, headers, found = client.response()
        assert (status, headers["x-thread"], found) == (200, home, body)
    assert new.response()[2] == b"/e "
    assert eventually(lambda: thread_of(other) == home)
    assert thread_of(kept, "/asgi/f") == home


@needs.HTTP2
def test_websockets_and_http_2_wait_for_the_loop_of_an_asgi_application(held):
    http2 = pytest.importorskip("tests.http2_client")
    server = held(*MIXED, "--http2", "cleartext", more=EVENTS)
    holding, kept, socket_client = (server.client() for _ in range(3))
    home = thread_of(kept)
    server.begin(holding)
    assert thread_of(kept) != home
    socket_client.send(
        b"GET /asgi/ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    h2 = http2.Client.over(blocking.create_connection(("127.0.0.1", server.program.port), timeout=60))
    streams = [h2.ask(path) for path in ("/asgi/a", "/b")]
    assert thread_of(kept) != home
    server.release()
    assert holding.response()[0] == 200
    assert [h2.answer(stream)[1]["x-thread"] for stream in streams] == [home, home]
    received = b""
    while home.encode() not in received:
        more = socket_client.sock.recv(1000)
        assert more, received
        received += more
    assert received.startswith(b"HTTP/1.1 101 ")
    h2.close()


def test_asyncio_in_a_thread_that_stands_by_is_warned_of(held):
    server = held(more=ASYNCIO)
    kept = server.client()
    seen = {thread_of(kept, "/asyncio")}
    assert "which has its own loop" not in server.program.said()
    for _ in range(4):
        holding = server.client()
        server.begin(holding)
        seen.add(thread_of(kept, "/asyncio"))
        server.release()
        assert holding.response()[0] == 200
    assert len(seen) == 2 and server.program.said().count("which has its own loop") == 1


@pytest.mark.parametrize("kind", ["names", "run_in_thread", "pool", "sqlite3", "files", "queue"])
def test_what_the_first_thread_has_made_works_in_each(held, kind):
    server = held(more=SHARED)
    holding, kept = server.client(), server.client()
    first = thread_of(kept, f"/use/{kind}")
    server.begin(holding)
    assert thread_of(kept, f"/use/{kind}") != first
    assert thread_of(kept, f"/use/{kind}") != first
    server.release()
    assert holding.response()[0] == 200
    assert thread_of(holding, f"/use/{kind}")


def test_bytes_that_had_come_go_along(held):
    """Half a head, a head behind a body, and many requests in a row."""
    server = held()
    holding, half, posting, many = (server.client() for _ in range(4))
    before = thread_of(half)
    half.send(b"GET /half HTT")
    posting.send(b"POST /posted HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    server.begin(holding)
    many.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(100)))
    half.send(b"P/1.1\r\nHost: a\r\n\r\n")
    status, headers, body = half.response()
    assert status == 200 and headers["x-thread"] != before and body == b"/half "
    assert [many.response()[2] for _ in range(100)] == [b"/%d " % number for number in range(100)]
    server.release()
    posting.send(b"cde")
    assert holding.response()[0] == 200 and posting.response()[2] == b"/posted abcde"


def test_encrypted_connections_go_along(held, authority, tmp_path):
    certfile, keyfile = authority.files("localhost")
    server = held("--certfile", certfile, "--keyfile", keyfile)

    def client():
        made = server.client()
        made.sock = authority.client_context().wrap_socket(made.sock, server_hostname="localhost")
        return made

    kept, holding = client(), client()
    before = thread_of(kept)
    server.begin(holding)
    assert thread_of(kept) != before and thread_of(client()) != before
    server.release()
    assert holding.response()[0] == 200


def test_a_thread_that_is_held_by_a_finaliser_of_the_server_is_not_relieved(held):
    """No application's tasklet runs then, so the tables of the loop may not be whole: the others wait, and
    none is lost."""
    server = held()
    holding, kept = server.client(), server.client()
    before = thread_of(kept)
    server.begin(holding, "leave")
    kept.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    server.release()
    assert {client.response()[1]["x-thread"] for client in (holding, kept)} == {before}


def test_the_limit_of_connections_is_one_account(held):
    server = held("--limit", "connections=3")
    holding, *idle = (server.client() for _ in range(3))
    for client in (holding, *idle):
        thread_of(client)
    server.begin(holding)
    assert thread_of(idle[1]) == thread_of(idle[1])
    assert thread_of(server.client())
    assert idle[0].at_end()  # the oldest that was idle made room
    server.release()
    assert holding.response()[0] == 200


def test_the_limit_of_requests_is_one_account(held):
    server = held("--limit", "requests=1")
    holding, kept = server.client(), server.client()
    thread_of(kept)
    server.begin(holding)
    kept.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: "a thread was held" in server.program.said())
    kept.sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        kept.response()  # it is queued in the second thread
    kept.sock.settimeout(60)
    server.release()
    assert holding.response()[0] == kept.response()[0] == 200


@pytest.mark.parametrize("relieved", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_server_stops_in_order(held, relieved, mixed):
    server = held(*MIXED, more=EVENTS) if mixed else held()
    holding, kept, waiting = (server.client() for _ in range(3))
    thread_of(kept), thread_of(waiting)
    server.begin(holding)
    if relieved:
        thread_of(kept)
    if mixed:
        waiting.send(b"GET /asgi/a HTTP/1.1\r\nHost: a\r\n\r\n")
        if relieved:
            thread_of(kept)
    server.program.process.send_signal(signal.SIGTERM)
    server.release()
    assert holding.response()[0] == 200
    assert not mixed or waiting.response()[2] == b"/asgi/a "
    assert server.program.process.wait(60) == 0
    assert "has not ended" not in server.program.said()


def test_a_stop_interrupts_requests_of_all_threads(held):
    server = held("--limit", "stop_seconds=0.1")
    holding, kept, waiting = (server.client() for _ in range(3))
    before = thread_of(kept)
    server.begin(holding)
    assert thread_of(kept) != before
    waiting.send(b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")  # on the second thread
    thread_of(kept)
    server.release()
    assert holding.response()[0] == 200
    server.program.process.send_signal(signal.SIGTERM)
    assert waiting.response()[0] == 503
    assert server.program.process.wait(60) == 0


def test_lines_of_the_access_log_come_from_all_threads(held, tmp_path):
    server = held("--access-log", str(tmp_path / "log"), "--access-log-format", "%U")
    holding, kept = server.client(), server.client()
    server.begin(holding)
    for number in range(20):
        thread_of(kept, f"/{number}")
    server.release()
    assert holding.response()[0] == 200
    server.program.end()
    lines = (tmp_path / "log").read_text().split()
    assert sorted(lines) == sorted([*(f"/{number}" for number in range(20)), "/hold/0"])


def test_workers_have_threads_that_stand_by(held):
    server = held("--workers", "1")
    holding, kept = server.client(), server.client()
    before = thread_of(kept)
    server.begin(holding)
    assert thread_of(kept) != before
    server.release()
    assert holding.response()[0] == 200


@pytest.mark.parametrize("prefixes", [("",), ("", "/asgi")])
def test_takeovers_lose_no_request_and_answer_none_twice(held, prefixes):
    """Many clients that send whole requests, halves of them and several at once, while threads are held again
    and again; each answer names its request."""
    server = held(*(MIXED if len(prefixes) > 1 else ()), threads=2, more=EVENTS)
    kept = server.client()
    failures = []
    stop = threading.Event()

    def speak(number):
        chance, client, asked = random.Random(number), Client(("127.0.0.1", server.program.port)), 0
        while not stop.is_set():
            paths = [
                f"{chance.choice(prefixes)}/{number}.{asked + i}" for i in range(chance.choice((1, 1, 1, 3)))
            ]
            asked += len(paths)
            data = b"".join(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in paths)
            cut = chance.choice((0, chance.randrange(len(data))))
            client.send(data[:cut])
            client.send(data[cut:])
            for path in paths:
                found = client.response()
                if found is None or found[0] != 200 or found[2] != f"{path} ".encode():
                    failures.append((path, found))
                    return
        client.close()

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    seen = set()
    for round in range(30):
        holding = server.client()
        server.begin(holding, number=round % 2)
        seen.add(thread_of(kept))
        server.release(round % 2)
        assert holding.response()[0] == 200
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert len(seen) > 1


def pretend_patched(monkeypatch, but=None):
    patches = types.SimpleNamespace(is_patched=lambda area: area != but)
    monkeypatch.setitem(sys.modules, "syncless.patches", patches)


def test_connections_that_are_left_to_others_are_so_after_a_takeover(start, monkeypatch):
    """As by a worker that is retired."""
    pretend_patched(monkeypatch)
    gate = threading.Event()  # this process is not patched: it holds the loop

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/hold":
            gate.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    def ask(client, path="/"):
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())

    def speak(holding, kept):
        ask(holding, "/hold")
        ask(kept)
        assert kept.recv(1000).endswith(b"done")
        with blocking.create_connection(server.address, timeout=0.05) as left:
            ask(left)
            with pytest.raises(TimeoutError):
                left.recv(1000)
        gate.set()
        assert holding.recv(1000).endswith(b"done")

    server = start(app, standby_threads=1, defer_accept=False)
    with blocking.create_connection(server.address) as one, blocking.create_connection(server.address) as two:
        assert eventually(lambda: sum(listener.connections for listener in server.listeners) == 2)
        server.pause_accepting()
        syncless.run_in_thread(speak, one, two)
    assert server.lanes[0].takeovers > 0


def test_a_second_thread_that_is_held_is_told_as_a_stall(start, monkeypatch):
    pretend_patched(monkeypatch)
    gate = threading.Event()  # this process is not patched: it holds the loop

    def app(environ, start_response):
        gate.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    def speak():
        with (
            blocking.create_connection(server.address) as one,
            blocking.create_connection(server.address) as two,
        ):
            for client in (one, two):
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert eventually(lambda: server.lanes[0].stuck(0.02))
            ((seconds, words),) = server.lanes[0].stuck(0.02)
            assert seconds >= 0.02 and "in app" in words and "fix: " in words
            gate.set()
            for client in (one, two):
                assert client.recv(1000).endswith(b"done")

    server = start(app, standby_threads=1)
    syncless.run_in_thread(speak)
    assert server.lanes[0].stuck(0.02) == []


def test_a_stop_reads_from_no_descriptor_that_it_has_closed(start, monkeypatch, reports):
    """Its number may be another's already."""
    pretend_patched(monkeypatch)
    server = start(print, standby_threads=1)
    standby = server.lanes[0]
    (side,) = standby._others()
    side.ended = True
    side.wake()
    standby._watch.end()
    assert eventually(lambda: side.loop is None and standby._over.is_set())  # so the stop waits for nobody
    server.stop()
    syncless.sleep(0.01)
    assert reports == []


@pytest.mark.parametrize("good", [0, 1, 2])  # in the server's own thread, or in another
def test_a_start_that_fails_leaves_nothing_behind(monkeypatch, good):
    pretend_patched(monkeypatch)
    server = Server(print, bind=["127.0.0.1:0"] * 2, standby_threads=2)
    made = server.application_at
    calls = []

    def fail(address):
        calls.append(address)
        if len(calls) > good:
            raise LookupError("no application")
        return made(address)

    monkeypatch.setattr(server, "application_at", fail)
    with pytest.raises(LookupError, match="no application"):
        server.start()
    assert server.census() == {} and server.lanes[0].connections == 0


def test_a_connection_that_cannot_change_its_thread_is_told_of_and_tried_again(start, monkeypatch, errors):
    pretend_patched(monkeypatch)
    gate = threading.Event()
    moves = []

    def fail_once(source, target, most):
        moves.append(source)
        if len(moves) == 1:
            raise MemoryError
        return take(source, target, most)

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/hold":
            gate.wait(60)
        start_response("200 OK", [])
        return [b"done"]

    def speak():
        with (
            blocking.create_connection(server.address) as one,
            blocking.create_connection(server.address) as two,
        ):
            two.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert two.recv(1000).endswith(b"done")
            one.sendall(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
            two.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert two.recv(1000).endswith(b"done")
            gate.set()
            assert one.recv(1000).endswith(b"done")

    monkeypatch.setattr(standby, "take", fail_once)
    server = start(app, standby_threads=1, error_log=errors)
    syncless.run_in_thread(speak)
    assert "A connection cannot change its thread" in errors.getvalue() and "MemoryError" in errors.getvalue()
    assert len(moves) > 1


@pytest.fixture
def beside():
    """beside(server) -> another listener of its socket, in the same thread. A move cannot tell that from one
    in another thread."""
    made = []

    def make(server):
        (first,) = server.listeners
        sock = blocking.socket()
        other = server.listener_for(server.application_at(server.address), server.address, False)
        join(first, other)
        acceptor = Acceptor(other, sock.fileno())
        acceptor.rest()
        made.extend((acceptor, other, sock))
        return other

    yield make
    for each in made:
        each.close()


@pytest.mark.virtual_time
def test_a_connection_that_moves_keeps_the_end_of_its_time(start, beside):
    server = start(lambda environ, start_response: [], head_seconds=10)
    (here,) = server.listeners
    there = beside(server)
    first, second = (start.client(server) for _ in range(2))
    began = time.monotonic()
    first.send(b"GET /half")
    syncless.sleep(3)
    assert take(here, there) == 1
    second.send(b"GET /half")
    syncless.sleep(3)
    assert take(there, here) == 1  # before the one that began later
    for client, seconds in ((first, 10), (second, 13)):
        assert client.response()[0] == 408
        assert time.monotonic() - began == pytest.approx(seconds, abs=0.5)


@pytest.mark.virtual_time
def test_the_limit_of_queued_requests_is_one_account(start, beside):
    gate = syncless.Event()

    def app(environ, start_response):
        gate.wait()
        start_response("200 OK", [])
        return [b"done"]

    server = start(app, requests=1, queued=2)
    (here,) = server.listeners
    there = beside(server)
    clients = [start.client(server) for _ in range(4)]
    for client in clients[:3]:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        syncless.sleep(0.01)
    clients[3].send(b"GET / HTTP/1.1\r\n")
    syncless.sleep(0.01)
    assert take(here, there) == 1  # the others run, and wait
    clients[3].send(b"Host: a\r\n\r\n")
    assert clients[3].response()[0] == 503
    assert add_up([here.figures(), there.figures()])["queued"] == 2
    gate.set()
    assert [client.response()[2] for client in clients[:3]] == [b"done"] * 3


@pytest.mark.virtual_time
def test_a_client_that_has_left_holds_up_no_move(start, beside):
    """Its response is still to be sent, with those of others that have moved before."""

    def app(environ, start_response):
        start_response("200 OK", [])
        client = clients[int(environ["QUERY_STRING"])]
        if client in ready:
            before = answered[-1] if answered else None
            answered.append(client)
            if before:
                before.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                before.sock.close()
                moved.append(take(here, there) + take(there, here))
        return [b"done"]

    ready, answered, moved = [], [], []
    server = start(app)
    (here,) = server.listeners
    there = beside(server)
    clients = [start.client(server) for _ in range(20)]
    for number, client in enumerate(clients):
        assert client.get(f"/?{number}")[2] == b"done"
    ready += clients
    for number, client in enumerate(clients):  # all are answered in one turn of the loop
        client.send(f"GET /?{number} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert eventually(lambda: len(answered) == len(clients))
    assert answered[-1].response()[2] == b"done" and len(moved) == len(clients) - 1 and min(moved) > 0
    assert eventually(lambda: here.connections + there.connections == 1)


@pytest.mark.virtual_time
def test_connections_that_were_active_last_move_first(start, beside):
    server = start(lambda environ, start_response: start_response("200 OK", []) and [], idle_seconds=20)
    (here,) = server.listeners
    there = beside(server)
    clients = [start.client(server) for _ in range(6)]
    began = time.monotonic()
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.response()[0] == 200
        syncless.sleep(1)
    assert take(here, there, 2) == 2
    assert all(client.get()[0] == 200 for client in clients[:1]) and here.connections == 4
    assert take(here, there, 3) == 3 and take(here, there, 3) == 1
    for number in (1, 2, 3, 4, 5, 0):  # the first has been active again
        assert clients[number].at_end()
        assert time.monotonic() - began == pytest.approx(20 + (number or 6), abs=0.5)


@pytest.mark.virtual_time
def test_connections_whose_bytes_have_come_move_first(start, beside):
    server = start(lambda environ, start_response: start_response("200 OK", []) and [b"done"])
    (here,) = server.listeners
    there = beside(server)
    clients = [start.client(server) for _ in range(6)]
    for client in clients:
        assert client.get()[0] == 200
    clients[0].send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")  # it has been idle for longest
    assert take(here, there, 1) == 1
    assert clients[0].response()[2] == b"done" and there.requests == 1
    for client in clients[1:]:
        assert client.get()[2] == b"done"
    assert there.requests == 1 and here.connections == 5


@pytest.mark.parametrize("unpatched", [None, "sqlite3"])
def test_connections_of_sqlite3_that_belong_to_a_thread_are_warned_of(start, monkeypatch, errors, unpatched):
    pretend_patched(monkeypatch, but=unpatched)
    monkeypatch.setitem(sys.modules, "sqlite3", types.SimpleNamespace())  # the application has imported it
    start(print, standby_threads=1, error_log=errors)
    assert errors.getvalue().count("the area sqlite3 is not patched") == (unpatched == "sqlite3")


def test_unpatched_programs_are_refused():
    program = "from syncless.wsgi import serve; serve(lambda environ, start: [], port=0, standby_threads=1)"
    done = run_unchecked(program)
    assert done.returncode and "standby_threads need the patch" in done.stderr


def test_asgi_applications_are_refused(program, tmp_path):
    code = "async def app(scope, receive, send): pass"
    server = program("--standby", "1", code=code, serves=False)
    assert server.process.wait(60) and "stays on its event loop" in server.said()


def test_it_does_not_go_with_native_handlers():
    with pytest.raises(ValueError, match="cannot be combined with native handlers"):
        Server(print, standby_threads=1, native={"/": print})
    with pytest.raises(ValueError, match="between 0 and 15"):
        Server(print, standby_threads=16)


def test_a_side_that_a_tasklet_begins_tells_where_its_thread_is():
    """Under the patch get_ident() is that of the tasklet."""
    check("""
        import syncless
        from syncless.server.lanes.standby import Side

        def begin():
            side = Side(0)
            side.begin()
            place = side.place()
            side.close()
            return place

        assert "standby.py:" in syncless.spawn(begin).result()
    """)
