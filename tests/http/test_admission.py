"""`--limit requests=auto` with each kind of application over each version of HTTP, and in several threads."""

import asyncio
import socket as blocking

import pytest

import syncless
from syncless.http import overload
from syncless.http.acceptor import Acceptor, join, offer, take
from tests import needs
from tests.waiting import eventually

pytestmark = [pytest.mark.usefixtures("background"), pytest.mark.virtual_time]

RULES = ["/low=low", "/high=high", "/free=always"]


@pytest.fixture
def few(monkeypatch):
    """The rule begins with one request."""
    monkeypatch.setattr(overload, "START", 1)


class Held:
    """An application of one of the interfaces, whose requests wait for open(); `begun` has their paths."""

    def __init__(self, interface):
        self.options = {"interface": interface}
        self.begun = []
        if interface == "wsgi":
            self.gate, self.app = syncless.Event(), self.wsgi
        else:
            self.gate, self.app = asyncio.Event(), self.asgi
            self.options["lifespan"] = "off"
        self.open = self.gate.set

    def wsgi(self, environ, start_response):
        self.begun.append(environ["PATH_INFO"])
        self.gate.wait()
        start_response("200 OK", [])
        return [b"hello"]

    async def asgi(self, scope, receive, send):
        self.begun.append(scope["path"])
        await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture(params=[1, pytest.param(2, marks=needs.HTTP2)], ids=["HTTP/1.1", "HTTP/2"])
def asked(start, request):
    """asked(server, path) -> a function that gives (status, fields) of the response. Over HTTP/2 a connection
    has all requests of a server."""
    clients = {}

    def ask(server, path):
        if request.param == 1:
            client = start.client(server)
            client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            answer = client.response
        else:
            from tests.http2_client import Client

            client = clients.setdefault(server, None) or Client(server)
            clients[server] = client
            stream = client.ask(path)
            answer = lambda: client.answer(stream)  # noqa: E731  # as the other
        syncless.sleep(0.001)
        return lambda: answer()[:2]

    yield ask
    for client in clients.values():
        client.close()


@pytest.fixture(params=["wsgi", "asgi"])
def held(request):
    return Held(request.param)


def begin(start, held, **options):
    http2 = "off" if needs.HTTP2.args[0] else "cleartext"
    return start(held.app, http2=http2, requests="auto", priority=RULES, **held.options, **options)


def test_higher_ranks_are_first(start, few, held, asked):
    server = begin(start, held)
    answers = [asked(server, path) for path in ("/1", "/low", "/2", "/high", "/free")]
    assert eventually(lambda: held.begun == ["/1", "/free"])
    census = server.census()
    assert census["active"] == 2 and census["queued"] == 3
    held.open()
    assert [answer()[0] for answer in answers] == [200] * 5
    assert held.begun == ["/1", "/free", "/high", "/2", "/low"]
    census = server.census()
    assert census["active"] == census["queued"] == 0
    assert server.listeners[0].figures()["exempt"] == 0


def test_those_that_wait_too_long_are_told_when_to_come_again(start, few, held, asked):
    """For 0.1 s they wait in order; then the low ones are refused at once, and others after 5 ms."""
    server = begin(start, held, retry_seconds=3)
    first, second = asked(server, "/1"), asked(server, "/2")
    syncless.sleep(0.11)
    status, fields = second()
    assert (status, fields["retry-after"]) == (503, "3")
    high, low = asked(server, "/high"), asked(server, "/low")
    status, fields = low()
    assert (status, fields["retry-after"]) == (503, "3")
    held.open()
    assert first()[0] == high()[0] == 200
    assert held.begun == ["/1", "/high"]
    figures = server.listeners[0].figures()
    assert figures["requests_refused"] == 2
    assert figures["running"] == figures["queued"] == figures["exempt"] == 0


def test_threads_that_stand_by_share_the_found_limit(start, few):
    """Two listeners of a socket, in the same thread: the rule cannot tell them from those of two threads."""
    held = Held("wsgi")
    server = start(held.app, requests="auto", defer_accept=False)
    (here,) = server.listeners
    sock = blocking.socket()
    there = server.listener_for(server.application_at(server.address), server.address, False)
    join(here, there)
    acceptor = Acceptor(there, sock.fileno())
    acceptor.rest()
    try:
        kept, first = start.client(server), start.client(server)
        assert eventually(lambda: here.connections == 2)
        first.send(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: held.begun == ["/1"])
        assert take(here, there) == 1
        kept.send(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: there.figures()["queued"] == 1)
        assert [here.figures()["requests_limit"], there.figures()["requests_limit"]] == [1, 0]
        held.open()
        assert first.response()[0] == 200
        offer(there)  # as a thread does while others are held
        assert kept.response()[0] == 200
        assert held.begun == ["/1", "/2"]
        assert here.figures()["running"] == there.figures()["running"] == there.figures()["queued"] == 0
    finally:
        for each in (acceptor, there, sock):
            each.close()
