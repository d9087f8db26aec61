"""Requests whose client has left are stopped where the server is told so (on_hangup)."""

import contextlib
import os
import socket as blocking
import ssl

import pytest

import syncless
from syncless._core.current import uninterrupted
from syncless.io import socket
from syncless.wsgi import ClientGone, Server, while_client_stays
from tests import needs
from tests.programs import check
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def request(method="GET"):
    return f"{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()


def hangups(server):
    return sum(listener.figures()["hangups"] for listener in server.listeners)


class Waiting:
    """An application that waits for `go_on`, and what it saw."""

    def __init__(self):
        self.go_on = syncless.Event()
        self.seen = []

    def __call__(self, environ, start_response):
        self.seen.append("begun")
        try:
            self.go_on.wait()
        except ClientGone:
            self.seen.append("gone")
            raise
        self.seen.append("done")
        start_response("200 OK", [])
        return [b"hello"]

    def begun(self, times=1):
        return eventually(lambda: self.seen.count("begun") == times)


def ask_and_leave(start, server, app):
    """A client that leaves while its request waits, and is forgotten."""
    client = start.client(server)
    client.send(request())
    assert app.begun()
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)


@pytest.mark.parametrize(
    ("on_hangup", "method", "stopped"),
    [
        ("continue", "GET", False),
        ("stop", "GET", True),
        ("stop", "HEAD", True),
        ("stop", "POST", False),
        ("stop-all", "POST", True),
    ],
)
def test_request_of_a_client_that_leaves_is_stopped_or_goes_on(start, on_hangup, method, stopped):
    app = Waiting()
    server = start(app, on_hangup=on_hangup)
    client = start.client(server)
    client.send(request(method))
    assert app.begun()
    client.close()
    if stopped:
        assert eventually(lambda: server.census()["connections"] == 0)
    else:
        syncless.sleep(0.02)
        app.go_on.set()
        assert eventually(lambda: server.census()["active"] == 0)
    assert app.seen == ["begun", "gone" if stopped else "done"]
    assert hangups(server) == stopped


def test_clients_that_stay_get_their_responses(start):
    app = Waiting()
    app.go_on.set()
    server = start(app, on_hangup="stop")
    client = start.client(server)
    for _ in range(3):
        assert client.get()[2] == b"hello"
    client.send(request() * 3)
    assert [client.response()[2] for _ in range(3)] == [b"hello"] * 3
    app.go_on.clear()
    client.send(request())  # a later request of a connection, which the loop has known for long
    assert app.begun(7)
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert app.seen[-2:] == ["begun", "gone"] and hangups(server) == 1


def test_client_that_has_shut_down_its_sending_half_counts_as_gone(start):
    app = Waiting()
    server = start(app, on_hangup="stop")
    client = start.client(server)
    client.send(request())
    assert app.begun()
    client.sock.shutdown(socket.SHUT_WR)
    assert client.at_end()
    assert app.seen == ["begun", "gone"]


def test_request_whose_client_left_in_the_queue_does_not_begin(start):
    app = Waiting()
    server = start(app, on_hangup="stop", requests=1)
    first, second = start.client(server), start.client(server)
    first.send(request())
    assert app.begun()
    second.send(request())
    assert eventually(lambda: server.census()["queued"] == 1)
    second.close()
    syncless.sleep(0.01)
    app.go_on.set()
    assert first.response()[2] == b"hello"
    assert eventually(lambda: server.census()["connections"] == 1)
    assert app.seen == ["begun", "done"] and hangups(server) == 1


def test_pipelined_request_behind_which_the_client_left_is_stopped(start):
    app = Waiting()
    server = start(app, on_hangup="stop")
    client = start.client(server)
    client.send(request() * 2)
    assert app.begun()
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert app.seen == ["begun", "gone"]


def test_generator_that_yields_nothing_for_long_is_ended(start):
    ended = syncless.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        try:
            yield b"first"
            syncless.Event().wait()
        finally:
            ended.set()

    server = start(app, on_hangup="stop")
    client = start.client(server)
    client.send(request())
    assert b"first" in client.sock.recv(1000)
    client.close()
    ended.wait()
    assert eventually(lambda: server.census()["connections"] == 0)


@pytest.mark.parametrize("on_hangup", ["continue", "stop"])
def test_client_that_left_is_not_told_of_behind_its_block(start, on_hangup):
    """A wait in the block could not be interrupted. With "stop" the whole request is the block."""
    seen = []

    def app(environ, start_response):
        try:
            with while_client_stays():
                seen.append("begun")
                uninterrupted(syncless.sleep, 0.02)
            seen.append("behind the block")
            syncless.sleep(0)
            seen.append("done")
        except ClientGone:
            seen.append("gone")
        start_response("200 OK", [])
        return []

    server = start(app, on_hangup=on_hangup)
    client = start.client(server)
    client.send(request())
    assert eventually(lambda: seen == ["begun"])
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert seen[1:] == ["behind the block", "gone" if on_hangup == "stop" else "done"]
    assert hangups(server) == (on_hangup == "stop")


@pytest.mark.parametrize("on_hangup", ["continue", "stop"])
def test_driver_that_tries_again_after_an_error_of_its_connection_is_stopped(start, on_hangup):
    """As urllib3 and redis-py do, and PyMySQL makes another error of it."""
    tries, ended = [], []

    def wait():
        tries.append(1)
        try:
            syncless.Event().wait()
        except OSError:
            wait()

    def app(environ, start_response):
        try:
            with while_client_stays():
                wait()
        except ClientGone:
            ended.append("gone")
            raise

    server = start(app, on_hangup=on_hangup)
    client = start.client(server)
    client.send(request())
    assert eventually(lambda: tries)
    client.close()
    assert eventually(lambda: server.census()["connections"] == 0 or len(tries) > 1)
    assert (len(tries), ended) == (1, ["gone"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "call"),
    [
        ("urllib3", "urllib3.PoolManager().request('GET', f'http://127.0.0.1:{port}/')"),
        ("redis", "redis.Redis(port=port, protocol=2, socket_timeout=60).ping()"),
        ("pymysql", "pymysql.connect(host='127.0.0.1', port=port)"),
    ],
)
def test_request_that_waits_in_a_driver_is_stopped(library, call):
    """Its server takes the connection and says nothing."""
    needs.module(library, f"{library} takes an OSError for an error of its connection")
    told = check(f"""
        import socket, syncless, {library}
        from syncless.wsgi import ClientGone, Server, while_client_stays

        def app(environ, start_response):
            try:
                with while_client_stays():
                    {call}
            except BaseException as error:
                print(type(error).__name__)
                raise
            finally:
                ended.set()

        ended = syncless.Event()
        silent = socket.create_server(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with Server(app, bind="127.0.0.1:0") as server, socket.create_connection(server.address) as client:
            client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
            connection, _ = silent.accept()
            client.close()
            ended.wait()
        connection.close()
        silent.close()
        """)
    assert told == "ClientGone\nto the end\n"


@pytest.mark.parametrize("how", ["gone", "deadline", "limit"])
@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\nhalf"])
@pytest.mark.parametrize(
    ("library", "client", "text"),
    [
        ("requests", "requests.Session()", "client.get(url).text"),
        ("urllib3", "urllib3.PoolManager()", "client.request('GET', url).data.decode()"),
        ("httpx", "httpx.Client(trust_env=False, timeout=60)", "client.get(url).text"),
    ],
)
def test_call_of_an_interrupted_request_ends_and_its_connection_is_closed(
    library, client, text, answered, how
):
    """Where it waits for the answer, or has read half of it. It is not tried again."""
    needs.module(library, f"{library} has a pool of connections")
    expected = {"gone": "ClientGone", "deadline": "TimeoutError", "limit": "RequestTimeout"}[how]
    check(f"""
        import contextlib, io, socket, syncless, {library}
        from syncless.wsgi import Server, while_client_stays

        upstream = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{{upstream.getsockname()[1]}}/"
        client = {client}
        events, ended = [], syncless.Event()
        block = {{"gone": while_client_stays, "deadline": lambda: syncless.deadline(0.05)}}

        def app(environ, start_response):
            try:
                with block.get({how!r}, contextlib.nullcontext)():
                    {text}
            except BaseException as error:
                events.append(type(error).__name__)
                raise
            finally:
                ended.set()

        limit = {{"request_seconds": 0.05}} if {how!r} == "limit" else {{}}
        with (
            Server(app, bind="127.0.0.1:0", error_log=io.StringIO(), **limit) as server,
            socket.create_connection(server.address) as asking,
        ):
            asking.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
            first, _ = upstream.accept()
            assert first.recv(65536).startswith(b"GET / ")
            first.sendall(b"{answered.decode()}")
            if {how!r} == "gone":
                syncless.sleep(0.005)
                asking.close()
            ended.wait()
            assert events == [{expected!r}], events
            assert first.recv(1) == b""
            second = syncless.spawn(lambda: {text})
            with upstream.accept()[0] as connection:
                assert connection.recv(65536).startswith(b"GET / ")
                connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nwhole")
                assert second.result() == "whole"
        first.close(); upstream.close()
        client.{"clear" if library == "urllib3" else "close"}()
        """)


@pytest.mark.parametrize(("on_hangup", "inside"), [("stop", False), ("continue", True)])
def test_block_inside_another_leaves_that_and_the_request_as_they_were(start, on_hangup, inside):
    app = Waiting()

    def outer(environ, start_response):
        with while_client_stays():
            with while_client_stays():
                syncless.sleep(0)
            if inside:
                return app(environ, start_response)
        return app(environ, start_response)

    server = start(outer, on_hangup=on_hangup)
    ask_and_leave(start, server, app)
    assert app.seen == ["begun", "gone"]


def test_request_in_time_limits_is_stopped_too(start):
    app = Waiting()
    server = start(app, on_hangup="stop", request_seconds=50)
    ask_and_leave(start, server, app)
    assert app.seen == ["begun", "gone"]


def test_stopped_request_is_no_error(start, errors):
    app = Waiting()
    server = start(app, on_hangup="stop", error_log=errors)
    ask_and_leave(start, server, app)
    assert errors.getvalue() == ""


def test_client_of_tls_that_leaves_is_noticed(https, authority):
    app = Waiting()
    server = https(app, on_hangup="stop")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = authority.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(server.address) as sock:
        for step in (tls.do_handshake, lambda: tls.write(request())):
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    step()
                    break
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65536))
            sock.sendall(outgoing.read())
        assert app.begun()
    assert eventually(lambda: server.census()["connections"] == 0)
    assert app.seen == ["begun", "gone"]


@needs.HTTP2
@pytest.mark.parametrize("how", ["reset", "lost"])
def test_stream_of_http2_that_is_reset_or_lost_is_stopped(start, how):
    from tests.http2_client import Client

    app = Waiting()
    server = start(app, on_hangup="stop", http2="cleartext")
    client = Client(server)
    stream = client.ask()
    assert app.begun()
    if how == "reset":
        client.h2.reset_stream(stream)
        client.flush()
    else:
        client.sock.close()
    assert eventually(lambda: server.census()["active"] == 0)
    client.sock.close()
    assert app.seen == ["begun", "gone"] and hangups(server) == 1


def test_application_of_asgi_hears_of_it_as_ever(background, start):
    heard = []

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            return
        await receive()
        heard.append((await receive())["type"])

    server = start(app, on_hangup="stop")
    client = start.client(server)
    client.send(request())
    assert eventually(lambda: server.census()["active"] == 1)
    client.close()
    assert eventually(lambda: heard == ["http.disconnect"])


def end_sending(client):
    """Let the server's end of this connection send nothing more, of which it gets no event."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError), blocking.socket(fileno=os.dup(fd)) as end:
            if end.family == blocking.AF_INET and end.getpeername() == client.getsockname():
                end.shutdown(blocking.SHUT_WR)


def wsgi_that_waits(client, seen):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/waits":
            try:
                with while_client_stays():
                    end_sending(client())
                    syncless.sleep(1e6)
            except ClientGone:
                seen.append("gone")
                raise
        start_response("200 OK", [])
        return [b"hello"]

    return app


def asgi_that_waits(client, seen):
    async def app(scope, receive, send):
        assert scope["type"] == "http"  # no lifespan
        await receive()
        if scope["path"] == "/waits":
            end_sending(client())
            seen.append({"http.disconnect": "gone"}[(await receive())["type"]])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    return app


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc/self/fd")
@pytest.mark.parametrize("make", [wsgi_that_waits, asgi_that_waits])
def test_request_hears_that_the_response_before_it_could_not_be_sent(background, start, make):
    seen = []
    server = start(make(lambda: client.sock, seen))
    client = start.client(server)
    client.send(request() + request().replace(b" / ", b" /waits "))
    assert eventually(lambda: server.census()["connections"] == 0)
    assert eventually(lambda: seen == ["gone"] and server.census()["active"] == 0)


def test_unknown_word_is_refused():
    with pytest.raises(ValueError, match="on_hangup must be one of continue, stop, stop-all, not 'abort'"):
        Server(Waiting(), on_hangup="abort")
