"""Native handlers as an operator sees them: log, counts, watchdog, stop, fork, shortage."""

import errno
import io
import math
import os
import re
import select
import socket
import time

import pytest

import syncless
from syncless.http.limits import Limits
from syncless.http.listener import CELLS, Counters, totals
from syncless.http.log.accesslog import ATOMS
from syncless.native import handlerthreads
from syncless.native.routing import parse_routes
from syncless.native.threads import Inbox, Threads
from syncless.wsgi import Server
from tests.native.conftest import python
from tests.programs import run_unchecked
from tests.waiting import eventually

ROUTES = {"/": "hello", "/echo": "echo", "/fails": "fails", "/pass": "pass"}


def test_access_log_has_a_line_for_each_request(served):
    log = io.StringIO()
    server = served(ROUTES, access_log=log, access_log_format='%h "%r" %>s %b "%{X-Asked}i"')
    client = served.client(server)
    client.get("/?a=%20b", "X-Asked: one\r\n")
    client.get("/py")
    client.get("/fails")
    refused = served.client(server)
    refused.send(b"BAD\r\n\r\n")
    refused.response()
    assert eventually(lambda: log.getvalue().count("\n") >= 4)
    assert sorted(log.getvalue().splitlines()) == sorted(
        [
            '127.0.0.1 "GET /?a=%20b HTTP/1.1" 200 13 "one"',
            '127.0.0.1 "GET /py HTTP/1.1" 200 15 "-"',
            '127.0.0.1 "GET /fails HTTP/1.1" 500 85 "-"',
            '127.0.0.1 "BAD" 400 54 "-"',
        ]
    )


def lines_of(served, routes, request, **options):
    """The line of the access log, and the answer's status."""
    log = io.StringIO()
    server = served(routes, access_log=log, **options)
    client = served.client(server)
    client.send(request)
    status = client.response(head_only=request.startswith(b"HEAD"))[0]
    assert eventually(lambda: log.getvalue().endswith("\n"))
    client.close()
    return status, log.getvalue()


@pytest.mark.parametrize("routes", [ROUTES, {"/elsewhere": "hello"}], ids=["native", "python"])
@pytest.mark.parametrize(
    ("trusted", "client"), [((), "127.0.0.1"), ("192.0.2.0/24", "127.0.0.1"), ("127.0.0.1", "198.51.100.7")]
)
def test_access_log_believes_a_trusted_peer_alone(served, routes, trusted, client):
    request = b"GET /echo HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Odd: b\r\n\r\n"
    options = {"trusted": trusted, "access_log_format": "%h %{X-Forwarded-For}i %{X-Forwarded-Odd}i"}
    _, line = lines_of(served, routes, request, **options)
    assert line == f"{client} {'198.51.100.7' if client != '127.0.0.1' else '-'} -\n"


@pytest.mark.parametrize("routes", [ROUTES, {"/elsewhere": "hello"}], ids=["native", "python"])
@pytest.mark.parametrize(
    ("fields", "ending"), [(b"", "+"), (b"Connection: close\r\n", "-")], ids=["kept", "closed"]
)
def test_access_log_shows_the_fields_that_an_application_would_see(served, routes, fields, ending):
    request = (
        b"GET http://a.example/echo HTTP/1.1\r\nHost: b.example\r\nCookie: c=1\r\nCookie: d=2\r\n"
        b"Accept: e\r\nAccept: f\r\nProxy: g\r\nX_Under: h\r\n" + fields + b"\r\n"
    )
    shown = "%V %{Host}i %{Cookie}i %{Accept}i %{Proxy}i %{X-Under}i %X"
    _, line = lines_of(served, routes, request, access_log_format=shown)
    assert line == f"a.example a.example c=1; d=2 e,f - - {ending}\n"


def test_handler_sees_the_fields_that_an_application_would_see(served):
    client = served.client(served({"/": "hidden"}))
    assert client.get("/", "Proxy: a\r\nX_Under: b\r\n")[2] == b"0"


FORWARDED = {
    "X-Forwarded-For": "198.51.100.7",
    "x-forwarded-PROTO": "https",
    "Forwarded": "for=198.51.100.7",
    "X-Real-IP": "198.51.100.8",
    "X-Forwarded-Odd": "c",
    "Proxy": "d",
    "X_Under": "e",
    "X-Request-Start": "1",
    "X-Asked": "f",
    "X-Forward": "g",
}


def environ_fields(environ, start_response):
    start_response("200 OK", [])
    return [
        "".join(sorted(f"{name[5:]}={environ[name]}\n" for name in environ if name[:5] == "HTTP_")).encode()
    ]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, []),
        ({"trusted": "192.0.2.0/24"}, []),
        ({"trusted": "127.0.0.1"}, ["X-Forwarded-For"]),
        ({"trusted": ["192.0.2.1", "127.0.0.0/30"]}, ["X-Forwarded-For"]),
        (
            {"trusted": "*", "trusted_fields": ["x-forwarded-proto", "x-real-ip"]},
            ["x-forwarded-PROTO", "X-Real-IP"],
        ),
        ({"trusted": "127.0.0.1", "trusted_fields": "forwarded"}, ["Forwarded"]),
        ({"trusted": "unix"}, []),
        ({"trusted": "unix", "unix": True}, ["X-Forwarded-For"]),
        ({"trusted": "127.0.0.1", "unix": True}, []),
    ],
)
def test_handler_and_application_see_forwarded_fields_of_trusted_peers_alone(
    served, options, shown, tmp_path
):
    """The handler's walk over the fields, and its look for one, are asked."""
    place = {"bind": f"unix:{tmp_path}/socket"} if options.pop("unix", False) else {}
    server = served({"/native": "show", "/looks": "looks"}, environ_fields, **options, **place)
    client = served.client(server)
    fields = "".join(f"{name}: {value}\r\n" for name, value in FORWARDED.items())
    seen = {name: FORWARDED[name] for name in [*shown, "X-Request-Start", "X-Asked", "X-Forward"]}
    in_environ = {name.upper().replace("-", "_"): value for name, value in seen.items()}
    application = client.get("/python", fields)[2].decode().splitlines()
    assert dict(line.split("=", 1) for line in application if line[:5] != "HOST=") == in_environ
    echoed = client.get("/native", fields)[2].decode().splitlines()
    assert dict(line.split(": ", 1) for line in echoed if line.partition(": ")[0] in FORWARDED) == seen
    for name, value in FORWARDED.items():
        looked = client.get(f"/looks?{name.upper()}", fields)[2].decode()
        assert looked == (value if name in seen else "-"), name


@pytest.mark.parametrize("routes", [ROUTES, {"/elsewhere": "hello"}], ids=["native", "python"])
def test_request_has_its_id_in_the_access_log(served, routes):
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    for trusted in "127.0.0.1", "192.0.2.1":
        request = f"GET /echo HTTP/1.1\r\nHost: a\r\nX-Request-ID: from-proxy\r\nTraceparent: {trace}\r\n\r\n"
        options = {"trusted": trusted, "request_ids": True, "access_log_format": "%L %L %{trace}L"}
        _, line = lines_of(served, routes, request.encode(), **options)
        first, second, found = line.split()
        assert first == second
        if trusted == "127.0.0.1":
            assert (first, found) == ("from-proxy", "1" * 32)
        else:
            assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]+", first) and found != "1" * 32


def test_log_knows_of_a_request_what_an_exchange_knows(served):
    names = [name for name, atom in ATOMS.items() if atom.kind == "exchange"]
    _, line = lines_of(
        served, ROUTES, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", access_log_format=" ".join(names)
    )
    assert len(line.split()) == len(names)


PLACES = "%v %p %{SERVER_NAME}e %{REMOTE_PORT}e %{Content-Type}o %{X-Steps}o %{x-pid}o"


@pytest.mark.parametrize("path", ["/echo", "/steps?1&size=1", "/process", "/fails", "BAD"])
@pytest.mark.parametrize("unix", [False, True])
def test_access_log_shows_place_and_response_as_for_an_application(served, tmp_path, path, unix):
    """The python ones by the same server, whose routes are others."""

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/fails":
            raise ValueError("meant by the test")
        type = {"/echo": "application/octet-stream", "/process": "text/plain"}.get(environ["PATH_INFO"])
        more = {"/steps": [("X-Steps", "yes")], "/process": [("X-Pid", str(os.getpid()))]}
        headers = [("Content-Type", type)] if type else []
        start_response("200 OK", headers + more.get(environ["PATH_INFO"], []))
        return [b""]

    lines = []
    names = {"/steps": "steps", "/process": "process"}
    for routes in (ROUTES | names, {"/elsewhere": "hello"}):
        log = io.StringIO()
        place = {"bind": f"unix:{tmp_path}/{len(lines)}"} if unix else {}
        server = served(
            routes, app, access_log=log, access_log_format=PLACES, error_log=io.StringIO(), **place
        )
        client = served.client(server)
        client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() if path != "BAD" else b"BAD\r\n\r\n")
        assert client.response()
        assert eventually(lambda log=log: log.getvalue().endswith("\n"))
        lines.append(log.getvalue())
        own = ("localhost", "80") if unix else ("127.0.0.1", str(server.port))
        mine = "-" if unix else client.sock.getsockname()[1]
        assert lines[-1].startswith(f"{own[0]} {own[1]} {own[0]} {mine} "), lines
    assert lines[0].split()[4:] == lines[1].split()[4:]
    assert lines[0].split()[4:] == {
        "/echo": ["application/octet-stream", "-", "-"],
        "/steps?1&size=1": ["-", "yes", "-"],
        "/process": ["text/plain", "-", str(os.getpid())],
    }.get(path, ["text/plain;", "charset=utf-8", "-", "-"])


@pytest.mark.parametrize("routes", [ROUTES, {"/elsewhere": "hello"}], ids=["native", "python"])
@pytest.mark.parametrize("trusted", [True, False])
def test_access_log_tells_how_long_a_proxy_has_kept_a_request(served, routes, trusted):
    request = f"GET /echo HTTP/1.1\r\nHost: a\r\nX-Request-Start: {time.time() - 1000:.3f}\r\n\r\n".encode()
    options = {"trusted": "127.0.0.1" if trusted else (), "trusted_fields": "x-request-start"}
    _, line = lines_of(served, routes, request, access_log_format="%Q", queue_seconds=3600, **options)
    assert int(line) >= 999_000_000 if trusted else line == "-\n"


BAD_BODIES = {
    "too large": (b"Content-Length: 11\r\n\r\n", 413),
    "too many chunks": (b"Transfer-Encoding: chunked\r\n\r\nb\r\n", 413),
    "malformed": (b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
}


@pytest.mark.parametrize("routes", [ROUTES, {"/elsewhere": "hello"}], ids=["native", "python"])
@pytest.mark.parametrize("kind", BAD_BODIES)
def test_access_log_shows_the_fields_of_a_request_whose_body_is_bad(served, routes, kind):
    """Its head was none to refuse, so it counts as a request."""
    rest, status = BAD_BODIES[kind]
    request = b"POST /echo HTTP/1.1\r\nHost: a\r\nReferer: there\r\n" + rest
    options = {"body_bytes": 10, "access_log_format": "%r %>s %{Referer}i %X"}
    got, line = lines_of(served, routes, request, **options)
    assert (got, line) == (status, f"POST /echo HTTP/1.1 {status} there -\n")


def test_request_whose_body_is_bad_is_counted_by_its_status(served):
    cells = bytearray(CELLS * 8)
    server = served(ROUTES, body_bytes=10)
    client = served.client(server)
    client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
    assert client.response()[0] == 413
    server.lanes[0].count(Counters(cells))
    counted = totals(memoryview(cells).cast("q"))
    assert (counted["requests"], counted["refused"]) == ({413: 1}, {})


def test_lines_that_python_does_not_take_in_time_are_dropped_and_counted(served, monkeypatch):
    """While this test holds the loop, nothing takes them: 8 MiB of them are kept."""
    monkeypatch.setattr(handlerthreads, "WATCH_SECONDS", 0.05)
    log, errors = io.StringIO(), io.StringIO()
    server = served(ROUTES, access_log=log, error_log=errors, access_log_format="%>s")
    request = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 8200 + b"\r\n\r\n"
    count = 1500
    with socket.create_connection(server.address, timeout=60) as client:
        for _ in range(count):
            client.sendall(request)
            assert b"Hello, World!" in client.recv(1000)
    assert eventually(lambda: "lines of native handlers were dropped" in errors.getvalue())
    dropped = int(re.search(r"too slow; (\d+) lines", errors.getvalue())[1])
    assert 0 < dropped < count
    assert eventually(lambda: log.getvalue().count("200\n") == count - dropped)
    assert errors.getvalue().count("were dropped") == 1


def test_requests_are_counted_by_status_and_time(served):
    cells = bytearray(CELLS * 8)
    server = served(ROUTES)
    counters = Counters(cells)
    client = served.client(server)
    for path in ("/", "/", "/fails"):
        client.get(path)
    refused = served.client(server)
    refused.send(b"BAD\r\n\r\n")
    refused.response()
    for _ in range(2):  # an addition is not made twice
        server.lanes[0].count(counters)
    row = memoryview(cells).cast("q")
    assert totals(row)["requests"] == {200: 2, 500: 1}
    assert totals(row)["refused"] == {400: 1}
    assert server.lanes[0].figures()["accepted"] == 2
    # the client may have read them before they are counted
    assert eventually(lambda: server.lanes[0].figures()["sent_bytes"] > 500)


def test_stuck_thread_is_named_once(served, handlers, monkeypatch):
    monkeypatch.setattr(handlerthreads, "WATCH_SECONDS", 0.05)
    reader, writer = os.pipe()
    errors = io.StringIO()
    server = served({"/block": handlers("block", context=reader)}, error_log=errors)
    client = served.client(server)
    client.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: "'/block'" in errors.getvalue())
    ((seconds, words),) = server.lanes[0].stuck(0)
    assert seconds >= 1 and "in the handler of '/block'" in words
    looks = seconds
    while looks < seconds + 10 * handlerthreads.WATCH_SECONDS:
        ((looks, _),) = server.lanes[0].stuck(0)
        syncless.sleep(0.01)
    assert errors.getvalue().count("'/block'") == 1
    os.write(writer, b"x")
    assert client.response()[2] == b"went on"
    assert server.lanes[0].stuck(0) == []
    os.close(reader)
    os.close(writer)


def test_time_of_a_handler_is_its_own_in_a_turn_of_many(stepped, handlers):
    reader, writer = os.pipe()
    server = stepped({"/block": handlers("block", context=reader)})
    clients = [server.client]
    server.connect()
    clients.append(server.client)
    for client in clients:
        client.sendall(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    turn = syncless.spawn(syncless.run_in_thread, server.threads.turn)
    assert eventually(lambda: [took for _, took, _ in server.threads.busy() if took >= 0.5])
    told = time.monotonic()
    os.write(writer, b"x")
    assert eventually(
        lambda: any(server.threads.requests == 1 and route for _, _, route in server.threads.busy())
    )
    ((_, took, route),) = server.threads.busy()
    assert route == "/block" and took <= time.monotonic() - told
    assert eventually(lambda: server.threads.busy()[0][1] >= 0.2)
    os.write(writer, b"x")
    turn.join()
    clients[0].close()
    os.close(reader)
    os.close(writer)


def test_python_accepts_while_all_threads_are_stuck(served, handlers, monkeypatch):
    monkeypatch.setattr(handlerthreads, "QUIET_SECONDS", 1e9)
    reader, writer = os.pipe()
    log = io.StringIO()
    routes = {**ROUTES, "/block": handlers("block", context=reader)}
    server = served(routes, native_threads=1, error_log=log)
    for _ in range(2):
        stuck = served.client(server)
        stuck.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: server.lanes[0].stuck(0.01))
        clients = [served.client(server) for _ in range(10)]
        for client in clients:
            assert client.get("/py")[0] == 200
        clients[0].send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        os.write(writer, b"x")
        assert stuck.response()[2] == b"went on"
        assert clients[0].response()[2] == b"Hello, World!"  # of a thread
        assert eventually(lambda: server.census()["connections"] == 9)
        for client in (stuck, *clients):
            client.close()
        assert eventually(lambda: not any(server.census().values()))
    server.stop()
    told = re.findall(r"\[INFO\] (native_threads=1 .*)", log.getvalue())
    assert len(told) == 2, told  # both times are one: the log tells the end at the stop
    assert (
        told[0] == "native_threads=1 is reached: Python accepts connections, too; --native-threads changes it"
    )
    assert re.fullmatch(r"native_threads=1 was reached for \d+\.\d s", told[1])
    os.close(reader)
    os.close(writer)


def test_threads_whose_descriptors_are_the_programs_are_told(served, monkeypatch):
    monkeypatch.setattr(handlerthreads, "WATCH_SECONDS", 0.01)

    def epolls():
        listed = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
        return {fd for fd in listed if "eventpoll" in os.readlink(f"/proc/self/fd/{fd}")}

    log, before = io.StringIO(), epolls()
    server = served(ROUTES, native_threads=1, error_log=log)
    assert served.client(server).get("/")[2] == b"Hello, World!"
    (fd,) = epolls() - before - {server.lanes[0]._gates[0]._epoll.fileno()}
    kept = os.dup(fd)
    with open(os.devnull, "r+b") as mine:
        os.dup2(mine.fileno(), fd)
    served.client(server)  # which it hears of where it waits already
    assert eventually(lambda: handlerthreads.LOST in log.getvalue())
    server.stop()
    assert os.write(fd, b"x") == 1
    os.close(fd)
    os.close(kept)


def test_acceptor_beside_threads_ends_where_its_epoll_is_the_programs(served, handlers):
    reader, writer = os.pipe()
    server = served({**ROUTES, "/block": handlers("block", context=reader)}, native_threads=1)
    stuck = served.client(server)
    stuck.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.lanes[0].stuck(0.01))
    gate = server.lanes[0]._gates[0]
    fd = gate._epoll.fileno()
    mine, kept = select.epoll(), os.dup(fd)
    os.dup2(mine.fileno(), fd)
    served.client(server)  # of which it hears
    assert eventually(lambda: gate._relieving.done() or gate._acceptor is not None)
    os.write(writer, b"x")
    assert stuck.response()[2] == b"went on"
    assert eventually(gate._relieving.done)
    with pytest.raises(FileNotFoundError):
        mine.unregister(gate._fd)
    server.stop()
    for each in (fd, kept, reader, writer):  # the first is not closed yet
        os.close(each)
    mine.close()


@pytest.mark.parametrize("path", ["/", "/py"])
def test_connections_go_past_a_stuck_thread(served, handlers, path):
    reader, writer = os.pipe()
    server = served({**ROUTES, "/block": handlers("block", context=reader)})
    stuck = served.client(server)
    stuck.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.lanes[0].stuck(0.1))
    clients = [served.client(server) for _ in range(10)]
    for client in clients:
        assert client.get(path)[0] == 200  # after it has been the application's, it goes back to a thread
        assert client.get("/")[2] == b"Hello, World!"
    os.write(writer, b"x")
    assert stuck.response()[2] == b"went on"
    os.close(reader)
    os.close(writer)


def test_stop_answers_what_has_come(served):
    server = served(ROUTES, stop_idle_seconds=3600)
    busy = served.client(server)
    assert busy.get("/")[0] == 200
    stopping = syncless.spawn(server.stop)
    assert eventually(lambda: not server._opened)
    busy.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert busy.response()[1]["connection"] == "close"
    assert busy.at_end()
    stopping.join()


def test_stop_closes_idle_connections(served):
    server = served(ROUTES, stop_idle_seconds=0.1)
    idle = served.client(server)
    assert idle.get("/")[0] == 200
    server.stop()
    assert idle.at_end()


def test_stop_leaves_a_thread_behind_that_does_not_end(served, handlers, monkeypatch):
    monkeypatch.setattr(handlerthreads, "END_SECONDS", 0.2)
    reader, writer = os.pipe()
    errors = io.StringIO()
    server = served({"/block": handlers("block", context=reader)}, error_log=errors, stop_seconds=0.1)
    client = served.client(server)
    client.send(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.lanes[0].stuck(0))
    server.stop(0)
    assert "has not ended" in errors.getvalue() and "'/block'" in errors.getvalue()
    os.write(writer, b"x")  # it ends now, and meets a server that is kept for it
    assert client.response()[2] == b"went on" and client.at_end()
    os.close(writer)


def test_thread_that_is_left_behind_accepts_no_more(stepped, handlers):
    """Its listening socket is closed then, and another one may have the number."""
    reader, writer = os.pipe()
    server = stepped({"/block": handlers("block", context=reader)})
    listener = socket.create_server(("127.0.0.1", 0))
    number = os.dup(listener.fileno())
    os.set_blocking(number, False)
    server.threads.listen(number)
    server.turn(2)  # no event is left
    server.client.sendall(b"GET /block HTTP/1.1\r\nHost: a\r\n\r\n")
    server.threads.drain()  # told of in the same turn, behind the request
    turn = syncless.spawn(syncless.run_in_thread, server.threads.turn)
    assert eventually(lambda: [route for _, _, route in server.threads.busy() if route])
    server.threads.end()
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_connection(other.getsockname()):
        other.setblocking(False)
        os.dup2(other.fileno(), number)
        os.write(writer, b"x")
        turn.join()
        other.accept()[0].close()
    for fd in (reader, writer, number):
        os.close(fd)
    listener.close()


def test_listening_that_fails_is_told_and_tried_again(handlers, tmp_path):
    (tmp_path / "file").touch()
    number = os.open(tmp_path / "file", os.O_RDONLY)  # epoll takes no files
    errors = []
    threads = Threads(parse_routes({"/": handlers("hello")}), 1, Limits())
    threads.listen(number)
    inbox = Inbox(threads, errors.append, errors.append, errors.append)
    threads.start()
    assert eventually(lambda: errors == [errno.EPERM])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        os.dup2(listener.fileno(), number)
        with socket.create_connection(listener.getsockname(), timeout=60) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1000).endswith(b"Hello, World!")
        threads.end()
        assert eventually(lambda: threads.ended) and threads.join()
    inbox.close()
    os.close(number)
    assert errors == [errno.EPERM]


def test_server_starts_again_after_a_stop(served):
    server = served(ROUTES)
    for _ in range(3):
        client = served.client(server)
        assert client.get("/")[2] == b"Hello, World!"
        assert client.get("/py")[2] == b"python GET /py "
        client.close()
        server.stop()
        server.start()


def test_limit_of_connections_closes_the_oldest_idle_one(served):
    server = served(ROUTES, connections=3, native_threads=1)
    clients = [served.client(server) for _ in range(3)]
    for client in clients:
        assert client.get("/")[0] == 200
    late = served.client(server)
    assert late.get("/")[0] == 200
    assert clients[0].at_end()
    assert clients[2].get("/")[0] == 200


def test_limit_of_connections_closes_the_oldest_idle_one_of_python(served):
    server = served(ROUTES, connections=3, native_threads=2)
    clients = [served.client(server) for _ in range(3)]
    for client in clients:
        assert client.get("/py")[0] == 200
    for oldest in clients[:2]:
        late = served.client(server)
        assert late.get("/py")[0] == 200
        assert oldest.at_end()
    assert clients[2].get("/py")[0] == 200


def test_connection_that_python_fails_to_take_is_closed_and_leaves_its_place(served, reports):
    server = served(ROUTES, connections=1, native_threads=1)
    trust, asked = server.trusted, []

    def failing(address):
        asked.append(address)
        if len(asked) == 1:
            raise MemoryError("no memory for a connection")
        return False

    assert trust is None
    server.stop()
    server.trusted = failing
    server.start()
    lost = served.client(server)
    lost.send(b"GET /py HTTP/1.1\r\nHost: a\r\n\r\n")
    assert lost.at_end()
    assert served.client(server).get("/py")[0] == 200
    assert len(asked) == 2


def test_connection_on_its_way_to_python_is_counted(served):
    server = served(ROUTES, native_threads=1)
    with socket.create_connection(server.address) as client:
        client.sendall(b"GET /py HTTP/1.1\r\nHost: a\r\n\r\n")
        threads, ends = server.lanes[0]._threads, time.monotonic() + 60
        while not threads.handed_over or threads.connections:
            assert time.monotonic() < ends
            time.sleep(0.001)  # stops the server's loop, too: it does not take the connection yet
        assert server.lanes[0].connections == 1
        assert eventually(lambda: server.census()["connections"] == 1)
        assert server.lanes[0].connections == 0


def test_connection_that_python_closed_leaves_its_place_at_once(served):
    server = served(ROUTES, connections=3, native_threads=1)
    idle = served.client(server)
    for _ in range(5):
        pythons = [served.client(server) for _ in range(2)]
        for client in pythons:
            client.get("/py")
            client.close()
        assert eventually(lambda: server.census()["connections"] == 0)
        syncless.sleep(0)
        with served.client(server) as late:
            assert late.get("/")[0] == 200
        assert idle.get("/")[0] == 200


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTT", b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab"]
)
@pytest.mark.virtual_time
def test_late_clients_are_cut_off(stepped, sent):
    limits = {"head_seconds": 0.05, "idle_seconds": 0.05, "body_seconds": 0.05}
    server = stepped(ROUTES, **limits)
    server.send(sent)
    for _ in range(300):
        server.threads.turn(0, 0.05)
        if server.threads.connections == 0 or server.received()[1]:
            break
    else:
        pytest.fail("it is still there")


LENGTH = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "limits"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", {"head_seconds": 1.0}),
        (LENGTH + b"x" * 200, {"body_total_seconds": 1.0, "body_grace_seconds": 0.2, "body_rate": 0}),
        (LENGTH + b"x" * 200, {"body_grace_seconds": 0.5, "body_rate": 600}),
    ],
)
@pytest.mark.virtual_time
def test_each_request_has_a_deadline_of_its_own(stepped, request_, limits):
    """The client always has a part of the next request on its way."""
    server = stepped(ROUTES, **limits)
    half = len(request_) // 2
    ends, answers = time.monotonic() + 1.5, 0
    assert server.send(request_ + request_[:half])
    while time.monotonic() < ends:
        time.sleep(0.05)
        assert server.send(request_[half:] + request_[:half])
        told, ended = server.received()
        answers += told.count(b"200 OK")
        assert not ended and b" 408 " not in told
    assert answers > 10


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nX: "],
        [LENGTH + b"x" * 100, b"x" * 100 + b"GET / HTTP/1.1\r\nX: "],
    ],
)
@pytest.mark.virtual_time
def test_late_head_behind_another_request_is_a_408(stepped, parts):
    server = stepped(ROUTES, head_seconds=0.2, body_rate=0)
    for part in parts:
        server.send(part)
    assert server.received()[0].count(b"200 OK") == 1
    ends = time.monotonic() + 60
    while server.send(b"x"):
        server.threads.turn(0, 0.02)
        told, _ = server.received()
        if told:
            break
        assert time.monotonic() < ends
    assert told.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("name", ["idle_seconds", "body_seconds", "write_grace_seconds", "write_rate"])
def test_limit_may_be_infinite(served, name):
    assert served.client(served(ROUTES, **{name: math.inf})).get("/")[0] == 200


@pytest.mark.parametrize("count", [-1, 129])
def test_number_of_threads_that_cannot_be_is_told_at_once(handlers, count):
    with pytest.raises(ValueError, match=f"native_threads must be between 0 .* and 128, not {count}"):
        Server(python, port=0, native={"/": handlers("hello")}, native_threads=count)


def test_server_whose_threads_do_not_start_is_as_before(served, handlers, monkeypatch):
    def fail(threads):
        raise OSError(errno.EAGAIN, "cannot start a thread for native handlers")

    server = Server(python, port=0, native={"/": handlers("hello")}, native_threads=2)
    kept = []
    with monkeypatch.context() as patched:
        patched.setattr(handlerthreads, "Threads", type("Failing", (Threads,), {"start": fail}))
        for _ in range(3):
            with pytest.raises(OSError, match="cannot start a thread"):
                server.start()
            kept.append(len(os.listdir("/proc/self/fd")))
    assert kept[1] == kept[2]
    server.start()
    assert served.client(server).get("/")[2] == b"Hello, World!"
    server.stop(0)


def test_child_of_a_fork_leaves_connections_to_the_parent(library, tmp_path):
    program = f"""if True:
    import os, socket
    from syncless import native
    from syncless.wsgi import Server
    server = Server(lambda e, s: (s("200 OK", []), [b"py"])[1], port=0, native_threads=2,
                    native={{"/": native.load({str(library)!r}, "hello")}}).start()
    client = socket.create_connection(server.address, timeout=60)
    def ask():
        client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        return client.recv(1000)[-13:]
    print(ask())
    pid = os.fork()
    if not pid:
        server.stop()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), ask())
    server.stop()
    print("ended", flush=True)
    """
    done = run_unchecked(program)
    assert done.stdout.splitlines() == ["b'Hello, World!'", "7 b'Hello, World!'", "ended"], done.stderr


def polled():
    """The descriptors in the epoll sets of this process."""
    found = []
    for fd in os.listdir("/proc/self/fdinfo"):
        try:
            with open(f"/proc/self/fdinfo/{fd}") as lines:
                found += [int(line.split()[1]) for line in lines if line.startswith("tfd:")]
        except FileNotFoundError:
            pass  # it was that of the folder
    return found


def test_closed_connection_is_in_no_epoll_set_though_a_child_has_a_copy(stepped):
    """Its struct is freed, so an event of the copy would be read from freed memory."""
    server = stepped(ROUTES, idle_seconds=0.05)
    client, accepted = socket.socketpair()
    accepted.setblocking(False)
    copy = os.dup(accepted.fileno())
    fd = accepted.detach()
    server.threads.give(0, fd)
    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    server.turn(2)
    assert client.recv(1000) and fd in polled()
    while server.threads.connections > 1:
        server.threads.turn(0, 0.01)
    assert fd not in polled()
    os.close(copy)
    client.close()


def test_child_of_a_fork_holds_no_connection_of_a_native_thread(library):
    """Not even one that never stops its server: the client sees that the parent has closed."""
    program = f"""if True:
    import os, socket, time, syncless
    from syncless import native
    from syncless.wsgi import Server
    server = Server(lambda e, s: (s("200 OK", []), [b"py"])[1], port=0, native_threads=2, idle_seconds=0.3,
                    native={{"/": native.load({str(library)!r}, "hello")}}).start()
    def asked():
        client = socket.create_connection(server.address, timeout=60)
        client.sendall(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        assert client.recv(1000).endswith(b"Hello, World!")
        return client
    clients = [asked() for _ in range(5)]
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(writer)
        for client in clients:
            client.close()
        taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(20)]   # perhaps with their numbers
        os.read(reader, 1)
        server.stop()
        for fd in taken:
            os.fstat(fd)
        os._exit(7)
    for client in clients:
        print(client.recv(1))
    os.close(writer)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    server.stop()
    """
    done = run_unchecked(program)
    assert done.stdout.splitlines() == ["b''"] * 5 + ["7"], done.stderr


def test_unix_socket(served, tmp_path):
    server = served(ROUTES, bind=f"unix:{tmp_path}/socket")
    client = served.client(server)
    assert client.get("/")[2] == b"Hello, World!"
    assert client.get("/py")[2] == b"python GET /py "
