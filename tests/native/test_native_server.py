"""Native handlers beside a Python application, on one port."""

import ctypes
import http.client
import io
import os
import re
import socket as blocking
import ssl
import threading
import time
from email.utils import parsedate_to_datetime

import pytest

import syncless
from syncless import native
from syncless.wsgi import Server
from tests import needs
from tests.native.conftest import python
from tests.plugin import Client
from tests.virtualtime import set_system_time
from tests.waiting import eventually

ROUTES = {
    "/": "hello",
    "/echo": "echo",
    "/pass": "pass",
    "/fails": "fails",
    "GET /users/{id}": "show",
    "/files/{path...}": "show",
    "/build": "build",
    "/forever": "forever",
}


def post(client, path, body, headers=""):
    client.send(
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body
    )
    return client.response()


def test_both_kinds_alternate_on_one_connection(served):
    server = served(ROUTES)
    client = served.client(server)
    for number in range(20):
        assert client.get("/")[2] == b"Hello, World!"
        assert client.get(f"/py/{number}")[2] == b"python GET /py/%d " % number
        assert post(client, "/echo", b"x" * number)[2] == b"x" * number
        assert post(client, "/py", b"y" * number)[2] == b"python POST /py " + b"y" * number


def test_both_kinds_are_answered_in_order_when_they_are_pipelined(served):
    client = served.client(served(ROUTES))
    paths = ["/", "/a", "/b", "/", "/", "/c", "/pass", "/", "/d"] * 20
    client.send(b"".join(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode() for path in paths))
    for path in paths:
        expected = b"Hello, World!" if path == "/" else b"python GET %s " % path.encode()
        assert client.response()[2] == expected


def test_handler_that_passes_leaves_request_and_body_to_python(served):
    client = served.client(served(ROUTES))
    for _ in range(3):
        assert post(client, "/pass", b"body")[2] == b"python POST /pass body"
        client.send(
            b"POST /pass HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
        )
        assert client.response()[2] == b"python POST /pass body"


def test_connection_that_comes_back_keeps_the_address_that_it_was_accepted_on(served):
    def port(environ, start_response):
        start_response("200 OK", [])
        return [environ["SERVER_PORT"].encode()]

    server = served(ROUTES, port, bind=["127.0.0.1:0", "127.0.0.1:0"])
    for address in server.addresses:
        client = Client(address)
        for _ in range(3):
            assert client.get("/py")[2] == b"%d" % address[1]
            assert client.get("/")[2] == b"Hello, World!"
        client.close()


def test_body_too_large_for_threads_is_left_to_python(served):
    client = served.client(served(ROUTES))
    large = os.urandom(3 << 20)
    client.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(large))
    sending = syncless.spawn(client.send, large)
    assert client.response()[2] == b"python POST /echo " + large
    sending.join()
    assert post(client, "/echo", large[:500_000])[2] == large[:500_000]


def test_connection_stays_with_python_while_its_requests_are_for_python(served):
    server = served(ROUTES)
    client = served.client(server)
    for _ in range(10):
        client.get("/py")
    assert server.lanes[0]._threads.handed_over == 1


def test_handler_sees_method_path_query_parameters_fields_and_body(served):
    client = served.client(served(ROUTES))
    told = client.get("/users/a%20b?c=%20d", "X-Asked: yes\r\nCookie: e\r\n")[2].decode().splitlines()
    assert told == [
        "method=GET",
        "path=/users/a b",
        "query=c=%20d",
        "target=/users/a%20b?c=%20d",
        "body=",
        "{id}=a b",
        "asked=yes",
        "host=test",
        "Host: test",
        "X-Asked: yes",
        "Cookie: e",
        "client=127.0.0.1",
    ]
    assert "{path}=x/y/" in client.get("/files/x/y/")[2].decode().splitlines()


def test_field_with_an_underscore_is_not_taken_for_another(served):
    """As in the environ of the application."""
    client = served.client(served(ROUTES | {"/fields/{id}": "underscore"}))
    assert client.get("/fields/1", "X_Asked: yes\r\n")[2] == b"none"
    assert client.get("/fields/1", "X-Asked: no\r\nX_Asked: yes\r\n")[2] == b"none"


def test_remembered_head_gives_the_same_and_another_one_does_not(served):
    client = served.client(served(ROUTES))
    for _ in range(3):
        for name in ("one", "two"):
            told = client.get(f"/users/{name}", f"X-Asked: {name}\r\n")[2].decode().splitlines()
            assert f"{{id}}={name}" in told and f"asked={name}" in told
            assert told == client.get(f"/users/{name}", f"X-Asked: {name}\r\n")[2].decode().splitlines()


def test_remembered_head_is_for_the_same_status_and_type_only(served):
    client = served.client(served({"/": "alike"}))
    for status, kind in [(200, "text/aaaa"), (404, "text/aaaa"), (404, "text/bbbb"), (200, "text/bbbb")] * 2:
        got, headers, body = client.get(f"/?{status}{kind}")
        assert (got, headers["content-type"], body) == (status, kind, b"0123456789")


def dates_of(data):
    return [parsedate_to_datetime(date) for date in re.findall(r"Date: ([^\r]*)", data.decode())]


@pytest.mark.virtual_time
def test_date_of_a_response_is_that_of_its_making(stepped):
    """Also of remembered heads, in a turn that takes long, and if the system's time is set back."""
    server = stepped({**ROUTES, "/slow": "slow"})
    requests = {
        path: b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path for path in (b"/", b"/build?200&n=10", b"/slow")
    }

    def date(path):
        server.send(requests[path])
        return dates_of(server.received()[0])[0]

    first = date(b"/")
    assert date(b"/build?200&n=10") == first == date(b"/")
    server.send(b"".join(requests[path] for path in (b"/", b"/slow", b"/", b"/build?200&n=10")))
    passed = [(each - first).total_seconds() for each in dates_of(server.received()[0])]
    assert passed == [0, 3, 3, 3]
    set_system_time(-3600)
    assert (date(b"/") - first).total_seconds() == 3 - 3600


def test_routes_by_method_and_their_precedence(served):
    routes = {"GET /a/{x}": "show", "GET /a/b": "hello", "POST /a/{x}": "echo", "/only": "hello"}
    client = served.client(served(routes))
    assert client.get("/a/b")[2] == b"Hello, World!"
    assert b"path=/a/c" in client.get("/a/c")[2]
    assert post(client, "/a/b", b"posted")[2] == b"posted"
    assert client.get("/a/")[2] == b"python GET /a/ "
    assert client.get("/only/")[2] == b"python GET /only/ "
    assert client.get("/%6fnly")[2] == b"Hello, World!"
    client.send(b"PUT /a/b HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response()[2] == b"python PUT /a/b "


def test_literal_goes_before_a_parameter_this_before_the_rest_and_a_method_before_any(served):
    routes = {
        "/a/{x}/c": "hello",
        "/a/b/{id}": "show",
        "/m/{id}": "hello",
        "GET /m/{id}": "show",
        "/r/{path...}": "hello",
        "/r/{id}": "show",
    }
    client = served.client(served(routes))
    for path, shown in (("/a/b/c", b"{id}=c"), ("/m/1", b"{id}=1"), ("/r/1", b"{id}=1")):
        assert shown in client.get(path)[2]
    assert client.get("/a/x/c")[2] == client.get("/r/1/2")[2] == b"Hello, World!"
    assert post(client, "/m/1", b"")[2] == b"Hello, World!"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users", "a path, or a method and a path"),
        ("GET users", "a path, or a method and a path"),
        ("/a/b{c}", "a whole segment"),
        ("/{a...}/b", "the last segment"),
        ("/{a}/{a}", "two parameters"),
    ],
)
def test_route_that_is_wrong_is_named(handlers, text, message):
    with pytest.raises(ValueError, match=message):
        Server(python, port=0, native={text: handlers("hello")})


def test_two_routes_for_the_same_requests_are_refused(handlers):
    with pytest.raises(ValueError, match="for the same requests"):
        Server(python, port=0, native={"/{a}": handlers("hello"), "/{b}": handlers("hello")})


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_host_of_a_handler_is_that_of_an_absolute_target(served, version):
    """RFC 9112, 3.2.2: as for an application."""
    client = served.client(served({"/show": "show"}))
    for _ in range(3):  # the head is remembered
        request = f"GET http://b.example:8/show HTTP/{version}\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
        client.send(request.encode())
        _, _, body = client.response()
        assert b"host=b.example:8\n" in body and b"\nHost: b.example:8\n" in body
    client.send(b"GET http://b.example/show HTTP/1.0\r\n\r\n")
    assert b"host=b.example\n" in client.response()[2]


def test_head_has_no_body_and_the_length_of_get(served):
    client = served.client(served(ROUTES))
    client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /users/1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response(head_only=True)[1]["content-length"] == "13"
    assert client.response(head_only=True)[0] == 200
    assert client.get("/")[2] == b"Hello, World!"


@pytest.mark.parametrize("status", [200, 201, 204, 205, 299, 304, 404, 426, 503, 599])
def test_status_and_fields_of_a_handler(served, status):
    client = served.client(served(ROUTES))
    size = 0 if status in (204, 205, 304) else 30
    for _ in range(2):
        got, headers, body = client.get(f"/build?{status}&n={size}")
        assert (got, headers["x-made"], headers["trailer"], len(body)) == (status, "yes", "X-Sum", size)
        assert ("content-length" in headers) == (status not in (204, 304))
        upgrade = ("websocket", "Upgrade") if status == 426 else (None, None)
        assert (headers.get("upgrade"), headers.get("connection")) == upgrade


def test_http_1_0_is_kept_only_if_it_asks(served):
    server = served(ROUTES)
    client = served.client(server)
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert client.response()[1]["connection"] == "keep-alive"
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.response()[1]["connection"] == "close"
    assert client.at_end()


def test_handler_that_fails_is_a_500_and_says_no_more(served):
    client = served.client(served(ROUTES))
    status, headers, body = client.get("/fails")
    assert status == 500 and headers["connection"] == "close" and b"The application failed" in body
    assert client.at_end()
    assert served.client(served(ROUTES)).get("/build?99")[0] == 500


@pytest.mark.parametrize("path", ["/", "/build?200&n=100000"])
def test_answer_that_cannot_be_sent_reaches_no_other_client(stepped, path):
    server = stepped(ROUTES)
    server.client.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    server.client.close()  # before the server's turn
    server.turn(2)
    server.connect()
    server.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    answer, _ = server.received()
    assert answer.count(b"HTTP/1.1") == 1 and answer.endswith(b"Hello, World!")


@pytest.mark.parametrize("size", [10, 16384, 16385, 3_000_000])
def test_bodies_of_any_size_to_a_slow_reader(served, size):
    client = served.client(served(ROUTES))
    for _ in range(2):
        body = client.get(f"/build?200&n={size}")[2]
        assert len(body) == size and body[:30] == bytes(ord("a") + i % 26 for i in range(min(30, size)))
    assert client.get("/forever")[2] == b"x" * 4_000_000


def test_file_is_sent(served, handlers, tmp_path):
    content = os.urandom(700_000)
    (tmp_path / "file").write_bytes(content)
    path = ctypes.create_string_buffer(os.fsencode(tmp_path / "file"))
    routes = {"/file": handlers("file", context=ctypes.addressof(path)), "/": "hello"}
    client = served.client(served(routes))
    assert client.get("/")[0] == 200  # it has been accepted
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert client.get("/file")[2] == content
        assert client.get("/")[2] == b"Hello, World!"
    client.send(b"HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response(head_only=True)[1]["content-length"] == str(len(content))
    assert len(os.listdir("/proc/self/fd")) == before


def test_file_that_shrinks_while_it_is_sent_ends_before_its_length(stepped, handlers, tmp_path):
    (tmp_path / "file").write_bytes(bytes(8_000_000))
    path = ctypes.create_string_buffer(os.fsencode(tmp_path / "file"))
    server = stepped({"/file": handlers("file", context=ctypes.addressof(path))})
    before = len(os.listdir("/proc/self/fd"))
    server.send(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n")
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the client reads nothing yet: the file is open
    os.truncate(tmp_path / "file", 100)
    data, closed = server.received()
    assert b"Content-Length: 8000000\r\n" in data and not closed
    server.turn()
    more, closed = server.received()
    assert closed and len(data) + len(more) < 8_000_000
    assert len(os.listdir("/proc/self/fd")) == before - 1  # without the file and the connection


def test_handlers_answer_while_python_is_busy(served):
    """The interpreter's lock is held all the while."""
    server = served(ROUTES)
    answered = []

    def ask():
        connection = http.client.HTTPConnection(*server.address, timeout=60)
        for _ in range(3):
            connection.request("GET", "/")
            answered.append(connection.getresponse().read())
        connection.close()

    asking = threading.Thread(target=ask)
    asking.start()
    end = time.monotonic() + 20
    while len(answered) < 3 and time.monotonic() < end:
        pass  # the loop never runs meanwhile
    asking.join()
    assert answered == [b"Hello, World!"] * 3


def test_connections_are_spread_over_the_threads(served):
    server = served(ROUTES, native_threads=3)
    clients = [served.client(server) for _ in range(60)]
    for client in clients:
        assert client.get("/")[0] == 200
    assert eventually(lambda: sum(server.lanes[0]._threads.connections_by_thread()) == 60)
    assert min(server.lanes[0]._threads.connections_by_thread()) >= 12


def test_published_bytes_are_found_and_replaced(served):
    client = served.client(served({"/news": "news"}))
    native.publish("news", None)
    assert client.get("/news")[0] == 404
    for number in range(50):
        native.publish("news", b"number %d " % number * (number * 100))
        assert client.get("/news")[2] == b"number %d " % number * (number * 100)
    native.publish("news", None)
    assert client.get("/news")[0] == 404


def ask_http1(address, context):
    connection = http.client.HTTPSConnection(*address, context=context, timeout=60)
    connection.request("GET", "/")
    body = connection.getresponse().read()
    connection.close()
    return body


def ask_http2(address, context):
    from tests.http2_client import Client  # skips without its library

    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(blocking.create_connection(address, timeout=60)) as sock:
        assert sock.selected_alpn_protocol() == "h2"
        return Client.over(sock).get()[2]


@pytest.mark.parametrize("ask", [ask_http1, pytest.param(ask_http2, marks=needs.HTTP2)])
def test_tls_is_the_python_servers(https, handlers, ask):
    errors = io.StringIO()
    server = https(python, native={"/": handlers("hello")}, error_log=errors)
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    assert syncless.run_in_thread(ask, server.address, context) == b"python GET / "
    assert "native handlers get no requests" in errors.getvalue()
