"""Requests that cannot move with their connection (TLS, HTTP/2) are answered by their worker all the same.

Two workers are in this process: each has its own server and half of one Affinity."""

import contextlib
import copy
import ssl
import sys
import zlib

import pytest

pytest.importorskip("syncless.shared.memory", reason="it is built where mutexes can be robust")
import syncless
from syncless.io import socket
from syncless.server.affinity import Affinity
from syncless.shared import area
from syncless.shared.embedded import Memory
from syncless.wsgi import Server, client_gone
from tests import needs
from tests.plugin import Client
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time
LARGE = bytes(range(256)) * 12_000
COOKIE = "syncless_worker=2"
FIELDS = f"Host: a\r\nCookie: {COOKIE}\r\n"


class Secure:
    """A socket over TLS, for one tasklet."""

    def __init__(self, address, context, protocol):
        context.set_alpn_protocols([protocol])
        self.sock = socket.create_connection(address, timeout=60)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self._do(self.tls.do_handshake)

    def _do(self, step, *args):
        while True:
            try:
                result = step(*args)
                self._flush()
                return result
            except ssl.SSLWantReadError:
                self._flush()
                data = self.sock.recv(65536)
                self.incoming.write(data) if data else self.incoming.write_eof()

    def _flush(self):
        if self.outgoing.pending:
            self.sock.sendall(self.outgoing.read())

    def sendall(self, data):
        self._do(self.tls.write, data)

    def recv(self, size):
        with contextlib.suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return self._do(self.tls.read, size)
        return b""

    def close(self):
        self.sock.close()


class Application:
    """Of one of the workers, which it names."""

    def __init__(self, name):
        self.name = name
        self.seen = []
        self.gate = syncless.Event()

    def __call__(self, environ, start_response):
        self.seen.append(environ["PATH_INFO"])
        self.environ = environ
        return getattr(self, environ["PATH_INFO"][1:] or "told")(environ, start_response)

    def told(self, environ, start_response):
        body = environ["wsgi.input"].read()
        start_response("200 OK", [("X-Worker", self.name), ("X-Two", "a"), ("X-Two", "b")])
        told = [environ["wsgi.url_scheme"], environ["REMOTE_ADDR"], environ.get("SSL_PROTOCOL")]
        return [f"{self.name} {' '.join(map(str, told))} {len(body)} {zlib.crc32(body)}".encode()]

    def large(self, environ, start_response):
        start_response("200 OK", [("Content-Length", str(len(LARGE)))] * ("known" in environ["QUERY_STRING"]))
        yield LARGE[:10]
        yield LARGE[10:]

    def teapot(self, environ, start_response):
        start_response("418 I'm a teapot", [("Content-Length", "0")])
        return []

    def short(self, environ, start_response):
        start_response("200 OK", [])
        yield b"begun"
        self.gate.wait()
        raise OSError("the worker's own")

    def wait(self, environ, start_response):
        start_response("200 OK", [])
        yield b"begun"
        while not client_gone():
            syncless.sleep(1)
        self.gate.set()

    def held(self, environ, start_response):
        self.gate.wait()
        return self.told(environ, start_response)

    def events(self, environ, start_response):
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        yield b"begun"
        while not client_gone():
            syncless.sleep(1)

    def hints(self, environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</style.css>; rel=preload")])
        return self.told(environ, start_response)

    def ws(self, environ, start_response):
        websocket = environ["wsgi.websocket"]
        for message in websocket:
            websocket.send(f"{self.name} {message}")
        self.gate.set()
        return []


def coroutine_application(name):
    """An application of ASGI: echoes the body, then its size in a trailer; /wait goes on until the client has
    left."""

    async def application(scope, receive, send):
        if scope["type"] != "http":
            raise RuntimeError("no lifespan")
        fields = [(b"x-worker", name.encode()), (b"x-scheme", scope["scheme"].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": fields, "trailers": True})
        size = 0
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            size += len(message["body"])
            await send({"type": "http.response.body", "body": message["body"], "more_body": True})
        if scope["path"] == "/wait":
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            application.gate.set()
            return
        await send({"type": "http.response.body"})
        await send({"type": "http.response.trailers", "headers": [(b"x-size", str(size).encode())]})

    application.gate = syncless.Event()
    return application


@pytest.fixture
def two(monkeypatch, authority, errors):
    """two(make=Application, **options) -> the applications of two workers, and their servers."""
    made = Memory(1000 * 128, 1 << 16)
    for name in ("_memory", "_store"):
        monkeypatch.setattr(area, name, made)
    first = Affinity("cookie", 2)
    certfile, keyfile = authority.files("localhost", "127.0.0.1")
    servers = []

    def begin(make=Application, **options):
        applications = [make("one"), make("two")]
        for number, application in enumerate(applications, 1):
            tls = {} if "http2" in options else {"certfile": certfile, "keyfile": keyfile}
            server = Server(application, port=0, remembered=0, error_log=errors, **tls, **options)
            affinity = copy.copy(first)
            affinity.join(server, number)
            servers.append(server.start())
        begin.affinity = first
        return applications, servers

    begin.servers = servers
    yield begin
    for server in servers:
        assert eventually(lambda server=server: not any(server.census().values())), server.census()
        server.stop()
    first.close()


@pytest.fixture
def secure(authority):
    """secure(server) -> a Client of HTTP/1.1 over TLS."""
    clients = []

    def connect(server, context=None):
        client = Client.__new__(Client)
        client.sock = Secure(server.address, context or authority.client_context(), "http/1.1")
        client.buffer = b""
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.close()


def told(name, body, protocol="TLSv1.3", scheme="https"):
    return f"{name} {scheme} 127.0.0.1 {protocol} {len(body)} {zlib.crc32(body)}".encode()


def test_connection_of_tls_carries_requests_of_several_workers(two, secure):
    """It stays where it is, and each request goes to the worker of its session."""
    applications, servers = two()
    client = secure(servers[0])
    for cookie, name in (("2", "two"), ("1", "one"), ("3", "one"), ("2", "two")):
        status, headers, body = client.get("/", f"Cookie: syncless_worker={cookie}\r\n")
        assert (status, headers["x-worker"], body) == (200, name, told(name, b""))
        assert ("set-cookie" in headers) == (cookie == "3")
    assert [application.seen for application in applications] == [["/"] * 2, ["/"] * 2]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_large_bodies_go_both_ways(two, secure, chunked):
    _, servers = two()
    client = secure(servers[0])
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(LARGE)}"
    client.send(f"POST / HTTP/1.1\r\n{FIELDS}{framing}\r\n\r\n".encode())
    for at in range(0, len(LARGE), 100_000):
        part = LARGE[at : at + 100_000]
        client.send(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
    client.send(b"0\r\n\r\n" if chunked else b"")
    assert client.response()[2] == told("two", LARGE)
    for query in ("", "known"):
        assert client.get(f"/large?{query}", f"Cookie: {COOKIE}\r\n")[2] == LARGE


def test_body_is_asked_for_when_the_worker_reads_it(two, secure):
    _, servers = two()
    client = secure(servers[0])
    ask = f"POST %s HTTP/1.1\r\n{FIELDS}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    client.send((ask % "/").encode())
    assert client.response()[0] == 100
    client.send(b"abc")
    assert client.response()[2] == told("two", b"abc")
    client.send((ask % "/teapot").encode())
    assert client.response()[0] == 418


def test_hints_come_before_the_response(two, secure):
    _, servers = two()
    client = secure(servers[0])
    assert client.get("/hints", f"Cookie: {COOKIE}\r\n")[:2] == (103, {"link": "</style.css>; rel=preload"})
    assert client.response()[2] == told("two", b"")


def test_client_that_sends_no_more_gets_its_response(two, secure):
    applications, servers = two()
    client = secure(servers[0])
    client.send(f"POST /held HTTP/1.1\r\n{FIELDS}Content-Length: 3\r\n\r\nabc".encode())
    client.sock.sock.shutdown(socket.SHUT_WR)
    assert eventually(lambda: applications[1].seen)
    applications[1].gate.set()
    assert client.response()[2] == told("two", b"abc")


def test_body_that_does_not_come_whole_ends_its_request(two, secure):
    _, servers = two(body_seconds=1)
    client = secure(servers[0])
    client.send(f"POST / HTTP/1.1\r\n{FIELDS}Content-Length: 3\r\n\r\nab".encode())
    assert client.response()[0] == 408


def test_two_workers_that_are_full_answer_requests_of_each_other(two, secure):
    """One that is relayed does not count where it waits."""
    applications, servers = two(requests=1)
    clients = [secure(server) for server in servers]
    for client, cookie in zip(clients, "21", strict=True):
        client.send(f"GET /held HTTP/1.1\r\nHost: a\r\nCookie: syncless_worker={cookie}\r\n\r\n".encode())
    assert eventually(lambda: applications[0].seen and applications[1].seen)
    for application in applications:
        application.gate.set()
    assert [client.response()[1]["x-worker"] for client in clients] == ["two", "one"]


def test_line_of_the_access_log_is_that_of_the_worker(two, secure, tmp_path):
    _, servers = two(access_log=str(tmp_path / "log"))
    assert secure(servers[0]).get("/", f"Cookie: {COOKIE}\r\n")[0] == 200
    assert eventually(lambda: (tmp_path / "log").read_text().count("GET / HTTP/1.1") == 1)


@pytest.mark.parametrize("path", ["/events", "/ws"])
def test_stop_of_the_worker_that_has_the_connection_ends_what_goes_on(two, secure, path):
    from tests.http.test_websocket import HANDSHAKE

    _, servers = two(stop_seconds=3600, stop_notice_seconds=0.1)
    client = secure(servers[0])
    client.send(f"{HANDSHAKE.replace('/ws', path)}Cookie: {COOKIE}\r\n\r\n".encode())
    while b"\r\n\r\n" not in client.buffer:
        assert client._more()
    stopping = syncless.spawn(servers[0].stop)
    assert eventually(lambda: servers[1].census()["connections"] == 0)
    while client._more():
        pass
    stopping.join()


def test_pipelined_requests_have_their_responses_in_order(two, secure):
    _, servers = two()
    client = secure(servers[0])
    ask = "%s / HTTP/1.1\r\nHost: a\r\nCookie: syncless_worker=%s\r\n\r\n"
    client.send("".join(ask % each for each in (("GET", 2), ("GET", 1), ("HEAD", 2), ("GET", 2))).encode())
    assert [client.response()[1]["x-worker"] for _ in range(2)] == ["two", "one"]
    assert client.response(head_only=True)[1]["x-worker"] == "two"
    assert client.response()[2] == told("two", b"")


def test_client_of_http_1_0_gets_a_response_that_ends_with_the_connection(two, secure):
    _, servers = two()
    client = secure(servers[0])
    client.send(f"GET /large HTTP/1.0\r\n{FIELDS}\r\n".encode())
    assert client.response()[2] == LARGE and client.at_end()


def test_certificate_of_the_client_is_known_to_its_worker(two, secure, authority, tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.ca.cert_pem.bytes())
    applications, servers = two(client_ca=str(ca))
    context = authority.client_context("client.test")
    client = secure(servers[0], context)
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[0] == 200
    there = applications[1].environ
    assert there["SSL_CLIENT_VERIFY"] == "SUCCESS" and there["SSL_CLIENT_CERT"].startswith("-----BEGIN")
    direct = secure(servers[1], context)
    assert direct.get("/", f"Cookie: {COOKIE}\r\n")[0] == 200
    own = applications[1].environ
    for key in ("HTTPS", "SSL_CIPHER", "SSL_CLIENT_S_DN", "SSL_PROTOCOL"):
        assert own[key] == there[key]


def begun(client):
    """The worker's response has come as far as its body."""
    while b"begun" not in client.buffer:
        assert client._more()


def test_response_that_is_cut_off_there_is_cut_off_here(two, secure):
    applications, servers = two()
    client = secure(servers[0])
    client.send(f"GET /short HTTP/1.1\r\n{FIELDS}\r\n".encode())
    begun(client)
    applications[1].gate.set()
    assert client.response()[2] is None


def test_worker_that_ends_before_its_response_makes_it_a_503(two, secure):
    _, servers = two()
    lane = servers[1].lanes[0]
    lane._receive_no_more()
    client = secure(servers[0])
    client.send(f"GET / HTTP/1.1\r\n{FIELDS}\r\n".encode())
    end_of_pair(servers[1]).close()
    status, headers, _ = client.response()
    assert status == 503 and headers["retry-after"]


@pytest.mark.parametrize("where", ["full", "gone"])
def test_request_that_cannot_be_sent_is_answered_where_it_arrived(two, secure, monkeypatch, where):
    _, servers = two()
    counted = []
    here = servers[0].lanes[0]._affinity
    monkeypatch.setattr(here, "count", counted.append)
    if where == "full":
        monkeypatch.setattr(here, "send", lambda *args: False)
    else:
        servers[1].lanes[0]._affinity.receive_here(False)
    assert secure(servers[0]).get("/", f"Cookie: {COOKIE}\r\n")[2] == told("one", b"")
    assert counted == [where]


def test_client_that_leaves_ends_its_request_there(two, secure):
    applications, servers = two()
    client = secure(servers[0])
    client.send(f"GET /wait HTTP/1.1\r\n{FIELDS}\r\n".encode())
    begun(client)
    client.close()
    assert applications[1].gate.wait(60)


def websocket(client):
    """Sends a message and reads the answer to it, and ends."""
    from tests.http.test_websocket import frame

    client.send(frame(1, b"hello"))
    while b"two hello" not in client.buffer:
        client.buffer += client.sock.recv(65536)
    client.send(frame(8, b"\x03\xe8"))


def test_websocket_over_tls_passes_as_bytes(two, secure):
    from tests.http.test_websocket import HANDSHAKE

    applications, servers = two()
    client = secure(servers[0])
    client.send(f"{HANDSHAKE}Cookie: {COOKIE}\r\n\r\n".encode())
    assert client.response()[0] == 101
    websocket(client)
    assert applications[1].gate.wait(60) and client.sock.recv(65536).endswith(b"\x03\xe8")


@needs.HTTP2
def test_streams_of_http2_go_to_their_workers(two):
    from tests.http2_client import Client as Client2

    applications, servers = two(http2="cleartext")
    client = Client2(servers[0])
    for number, name in (("2", "two"), ("1", "one"), ("2", "two")):
        status, headers, body = client.get("/", "GET", ("cookie", f"syncless_worker={number}"))
        assert (status, headers["x-worker"], headers["x-two"]) == (200, name, "b")
        assert body == told(name, b"", None, "http")
    stream = client.ask("/", "POST", ("cookie", COOKIE), ends=False)
    other = client.ask("/large", "GET", ("cookie", COOKIE))
    client.upload(stream, LARGE)
    assert client.answer(stream)[2] == told("two", LARGE, None, "http")
    assert client.answer(other)[2] == LARGE
    applications[1].gate.set()
    assert client.get("/short", "GET", ("cookie", COOKIE))[2] is None
    client.close()


@needs.HTTP2
def test_stream_over_tls_has_the_scheme_and_the_protocol_of_its_client(two, authority):
    from tests.http2_client import Client as Client2

    _, servers = two()
    client = Client2.over(Secure(servers[0].address, authority.client_context(), "h2"))
    assert client.get("/", "GET", ("cookie", COOKIE))[2] == told("two", b"")
    client.close()


def test_application_of_asgi_answers_with_trailers(background, two, secure):
    applications, servers = two(coroutine_application)
    client = secure(servers[0])
    client.send(f"GET /wait HTTP/1.1\r\n{FIELDS}\r\n".encode())
    status, headers, _ = client.response(head_only=True)
    assert (status, headers["x-worker"], headers["x-scheme"]) == (200, "two", "https")
    client.close()
    assert applications[1].gate.wait(60)
    client = secure(servers[0])
    head = f"POST / HTTP/1.1\r\n{FIELDS}TE: trailers\r\nConnection: close\r\nContent-Length: {len(LARGE)}"
    client.send(head.encode() + b"\r\n\r\n" + LARGE)
    assert client.response(head_only=True)[0] == 200
    while client._more():
        pass
    assert client.buffer.endswith(b"\r\n0\r\nx-size: %d\r\n\r\n" % len(LARGE))


def reset_and_wait(client, application):
    """A stream is reset after its response has begun, and its request ends in its worker."""
    from h2 import events

    stream = client.ask("/wait", "GET", ("cookie", COOKIE))
    client.wait_for(events.DataReceived, stream)
    client.h2.reset_stream(stream)
    client.flush()
    assert application.gate.wait(60)


@needs.HTTP2
def test_application_of_asgi_answers_streams_with_trailers(background, two):
    from h2 import events

    from tests.http2_client import Client as Client2

    applications, servers = two(coroutine_application, http2="cleartext")
    client = Client2(servers[0])
    stream = client.ask("/", "POST", ("cookie", COOKIE), ("te", "trailers"), ends=False)
    client.upload(stream, LARGE)
    status, headers, body = client.answer(stream)
    assert (status, headers["x-worker"], body) == (200, "two", LARGE)
    assert dict(client.wait_for(events.TrailersReceived, stream).headers) == {"x-size": str(len(LARGE))}
    reset_and_wait(client, applications[1])
    client.close()


@needs.HTTP2
def test_websocket_of_a_stream_passes_as_bytes(two):
    from tests.http2.test_websocket import WebSocket
    from tests.http2_client import Client as Client2

    applications, servers = two(http2="cleartext")
    client = Client2(servers[0])
    websocket = WebSocket(client, ("cookie", COOKIE))
    assert websocket.head()[0] == 200
    websocket.send(1, b"hello")
    assert websocket.receive() == (1, b"two hello")
    websocket.close()
    assert applications[1].gate.wait(60)
    client.close()


@needs.HTTP2
def test_stream_that_is_reset_ends_its_request_there(two):
    from tests.http2_client import Client as Client2

    applications, servers = two(http2="cleartext")
    client = Client2(servers[0])
    reset_and_wait(client, applications[1])
    client.close()


@pytest.fixture
def sends(monkeypatch):
    """The numbers of the workers to which an end of a pair was sent."""
    numbers = []
    send = Affinity.send

    def noted(self, number, fd, message):
        numbers.append(number)
        return send(self, number, fd, message)

    monkeypatch.setattr(Affinity, "send", noted)
    return numbers


def connections(server):
    return server.census()["connections"]


def test_requests_of_a_connection_share_a_pair(two, secure, sends):
    """It ends with the connection."""
    _, servers = two()
    client = secure(servers[0])
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")
    assert client.get("/", "Cookie: syncless_worker=1\r\n")[2] == told("one", b"")
    client.send(f"POST / HTTP/1.1\r\n{FIELDS}Content-Length: 3\r\n\r\nabc".encode())
    assert client.response()[2] == told("two", b"abc")
    for path, body in (("/large", LARGE), ("/large?known", LARGE), ("/hints", None), ("/", told("two", b""))):
        answer = client.get(path, f"Cookie: {COOKIE}\r\n")
        assert (client.response() if answer[0] == 103 else answer)[2] == body or body is None
    client.send(f"HEAD / HTTP/1.1\r\n{FIELDS}\r\n".encode())
    assert client.response(head_only=True)[0] == 200
    assert sends == [2] and connections(servers[1]) == 1
    client.close()
    assert eventually(lambda: connections(servers[1]) == 0)


@pytest.mark.parametrize(
    "ask",
    [
        f"GET / HTTP/1.1\r\n{FIELDS}Connection: close\r\n\r\n",
        f"GET / HTTP/1.0\r\n{FIELDS}\r\n",
        f"GET /short HTTP/1.1\r\n{FIELDS}\r\n",
        f"POST /teapot HTTP/1.1\r\n{FIELDS}Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    ],
    ids=["close", "http1.0", "cut off", "body unsent"],
)
def test_pair_that_may_not_go_on_is_not_kept(two, secure, ask):
    applications, servers = two()
    applications[1].gate.set()
    client = secure(servers[0])
    client.send(ask.encode())
    assert client._more()
    assert eventually(lambda: connections(servers[1]) == 0)
    assert all(not pairs._kept for _, pairs in routes(servers[0])._pairs.values())


def routes(server):
    return server.lanes[0].routes[0]


def test_pair_that_its_worker_has_closed_is_replaced(two, secure, sends):
    """By its own limit; the client's connection goes on."""
    _, servers = two(idle_seconds=30)
    client = secure(servers[0])
    for path in ("/", "/"):
        assert client.get(path, f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")
        syncless.sleep(20)
        assert client.get(path, "Cookie: syncless_worker=1\r\n")[0] == 200
        syncless.sleep(20)
        assert connections(servers[1]) == 0
    assert sends == [2, 2]


def test_idle_client_ends_its_pair(two, secure):
    _, servers = two(idle_seconds=30)
    client = secure(servers[0])
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[0] == 200
    assert client.at_end()
    assert connections(servers[0]) == connections(servers[1]) == 0


def test_worker_that_stops_takes_no_request_by_a_pair_that_is_kept(two, secure, monkeypatch):
    """Its session goes to another worker, and is counted."""
    _, servers = two()
    client = secure(servers[0])
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")
    counted = []
    monkeypatch.setattr(routes(servers[0])._affinity, "count", counted.append)
    servers[1].stop()
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[2] == told("one", b"")
    assert counted == ["gone"]


def end_of_pair(server):
    """That of the worker, which has not taken it."""
    inbox = server.lanes[0]._affinity.inbox
    syncless.wait_readable(inbox.fileno())
    _, rights, _, _ = inbox.recvmsg(4096, 100)
    return socket.socket(fileno=int.from_bytes(rights[0][2][:4], sys.byteorder))


def kept_by_the_test(client, server):
    """The worker's end of a pair that has had one request, which the test has answered. The worker takes
    those that follow."""
    lane = server.lanes[0]
    lane._receive_no_more()
    client.send(f"GET / HTTP/1.1\r\n{FIELDS}\r\n".encode())
    end = end_of_pair(server)
    while b"\r\n\r\n" not in end.recv(65536):
        pass
    end.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert client.response()[0] == 200
    lane.start()
    return end


def closed_in_between(end, monkeypatch, reads):
    """A look at the pair finds it open, and it closes before the head has been read, or after."""
    from syncless.server import relay

    look = relay.is_silent

    def closed_later(sock):
        found = look(sock)
        if not reads:
            syncless.spawn(end.close)
        else:
            syncless.spawn(lambda: (end.recv(65536), end.close()))
        return found

    monkeypatch.setattr(relay, "is_silent", closed_later)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_request_that_its_worker_has_not_read_goes_by_another_pair(two, secure, monkeypatch, sends, method):
    applications, servers = two()
    client = secure(servers[0])
    end = kept_by_the_test(client, servers[1])
    closed_in_between(end, monkeypatch, False)
    client.send(f"{method} / HTTP/1.1\r\n{FIELDS}\r\n".encode())
    assert client.response()[2] == told("two", b"")
    assert sends == [2, 2] and applications[1].seen == ["/"]


def test_request_that_its_worker_has_read_is_not_sent_again(two, secure, monkeypatch, sends):
    applications, servers = two()
    client = secure(servers[0])
    end = kept_by_the_test(client, servers[1])
    closed_in_between(end, monkeypatch, True)
    client.send(f"GET / HTTP/1.1\r\n{FIELDS}\r\n".encode())
    assert client.response()[0] == 503
    assert sends == [2] and applications[1].seen == []


def test_request_whose_worker_is_killed_between_two_requests_goes_to_the_next_one(two, secure, sends):
    _, servers = two()
    client = secure(servers[0])
    end = kept_by_the_test(client, servers[1])
    end.close()
    client.send(f"POST / HTTP/1.1\r\n{FIELDS}Content-Length: 3\r\n\r\nabc".encode())
    assert client.response()[2] == told("two", b"abc")
    assert sends == [2, 2]


def test_pair_that_lacks_the_end_of_a_body_is_not_kept(two, secure, sends):
    """The response has come before it."""
    _, servers = two()
    client = secure(servers[0])
    client.send(f"POST /teapot HTTP/1.1\r\n{FIELDS}Content-Length: 9\r\n\r\nabc".encode())
    assert client.response()[0] == 418
    client.send(b"defghi")
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")
    assert sends == [2, 2]


@needs.HTTP2
def test_streams_share_pairs(two, sends):
    """As many at a time as there are requests; a number of them is kept."""
    from syncless.server.relay import KEPT
    from tests.http2_client import Client as Client2

    applications, servers = two(http2="cleartext")
    client = Client2(servers[0])
    for _ in range(3):
        assert client.get("/", "GET", ("cookie", COOKIE))[2] == told("two", b"", None, "http")
    assert sends == [2]
    streams = [client.ask("/held", "GET", ("cookie", COOKIE)) for _ in range(KEPT + 2)]
    assert eventually(lambda: applications[1].seen.count("/held") == KEPT + 2)
    applications[1].gate.set()
    assert {client.answer(stream)[0] for stream in streams} == {200}
    assert sends == [2] * (KEPT + 2)
    assert eventually(lambda: connections(servers[1]) == KEPT)
    assert client.get("/", "POST", ("cookie", COOKIE))[0] == 200
    assert sends == [2] * (KEPT + 2)
    client.close()
    assert eventually(lambda: connections(servers[1]) == 0)


def test_client_may_have_more_pairs_than_connections(two, secure):
    """`client_connections` counts the one that it has."""
    _, servers = two(client_connections=1)
    client = secure(servers[0])
    assert client.get("/", f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")
    assert secure(servers[1]).get("/", f"Cookie: {COOKIE}\r\n")[2] == told("two", b"")


@needs.HTTP2
def test_pair_that_its_worker_is_about_to_close_is_not_kept(two, sends):
    from tests.http2_client import Client as Client2

    _, servers = two(http2="cleartext")
    client = Client2(servers[0])
    lane = servers[1].lanes[0]
    lane._receive_no_more()
    stream = client.ask("/", "GET", ("cookie", COOKIE))
    end = end_of_pair(servers[1])
    end.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    assert client.answer(stream)[0] == 200
    lane.start()
    assert client.get("/", "GET", ("cookie", COOKIE))[2] == told("two", b"", None, "http")
    assert sends == [2, 2]
    end.close()
    client.close()
