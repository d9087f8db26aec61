"""start_response(), write() and the errors of an application (PEP 3333)."""

import wsgiref.validate

import pytest

import syncless
from tests.wsgi.applications import HELLO

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK\r\nX: y", []),
        ("200 \u20ac", []),
        ("200 \ud800", []),
        ("200", []),
        ("OK", []),
        ("099 Low", []),
        ("101 Switching Protocols", []),
        (200, []),
        (b"200 OK", []),
        ("200 OK", [("X", "a\r\nSet-Cookie: evil")]),
        ("200 OK", [("X", "a\nb")]),
        ("200 OK", [("X", "a\0b")]),
        ("200 OK", [("X\r\n", "a")]),
        ("200 OK", [("X:", "a")]),
        ("200 OK", [("", "a")]),
        ("200 OK", [("X", "\u20ac")]),
        ("200 OK", [("\u20ac", "a")]),
        ("200 OK", [("X", 5)]),
        ("200 OK", [("X", b"a")]),
        ("200 OK", [["X", "a"]]),
        ("200 OK", ["X"]),
        ("200 OK", (("X", "a"),)),
        ("200 OK", [("Content-Length", "-1")]),
        ("200 OK", [("Content-Length", "1_0")]),
        ("200 OK", [("Content-Length", "13"), ("Content-Length", "14")]),
        ("200 OK", [("Content-Length", "99999999999999999999")]),
    ],
)
def test_invalid_response_is_an_error_of_the_application(start, errors, status, headers):
    def app(environ, start_response):
        start_response(status, headers)
        return [HELLO]

    client = start.client(start(app, error_log=errors))
    code, got, body = client.get()
    assert code == 500 and b"Traceback" not in body and got["content-type"].startswith("text/plain")
    assert "Traceback" in errors.getvalue() and client.at_end()
    assert f'{__file__}", line {app.__code__.co_firstlineno + 1}' in errors.getvalue()
    told = errors.getvalue().rpartition("Error: ")[2]
    if isinstance(headers, list) and headers and len(headers[0]) == 2:
        assert headers[0][0] in told or repr(headers[0][0]) in told
    else:
        assert repr(status) in told or type(status).__name__ in told or "headers must" in told or "X" in told


@pytest.mark.parametrize(
    "result",
    [None, 5, "text", ["text"], [b"ok", "text"], [None]],
)
def test_wrong_results(start, errors, result):
    def app(environ, start_response):
        start_response("200 OK", [])
        return result

    server = start(app, error_log=errors)
    assert start.client(server).get()[0] == 500
    assert "TypeError" in errors.getvalue()


def test_errors_before_start_response(start, errors):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/raise":
            raise LookupError("needle")
        if environ["PATH_INFO"] == "/exit":
            raise SystemExit("from an application")
        return [b"no start_response"] if environ["PATH_INFO"] == "/silent" else []

    server = start(app, error_log=errors)
    for path in ("/raise", "/exit", "/silent", "/nothing"):
        client = start.client(server)
        status, _, body = client.get(path)
        assert status == 500 and b"needle" not in body and client.at_end()
    assert "needle" in errors.getvalue() and "GET /raise" in errors.getvalue()


def test_write(start):
    def app(environ, start_response):
        write = start_response("200 OK", [])
        write(b"one ")
        syncless.sleep(0.001)
        write(b"two ")
        return [b"three"]

    assert start.client(start(app)).get()[2] == b"one two three"


def test_exc_info_replaces_the_head_until_it_is_sent(start, errors):
    def app(environ, start_response):
        start_response("200 OK", [("X-First", "1")])
        try:
            if environ["PATH_INFO"] == "/late":
                yield b"sent"
            raise KeyError("oops")
        except KeyError:
            start_response("500 Oops", [("X-Second", "2")], __import__("sys").exc_info())
            yield b"replaced"

    server = start(app, error_log=errors)
    status, headers, body = start.client(server).get("/early")
    assert (status, body) == (500, b"replaced") and "x-first" not in headers and headers["x-second"] == "2"
    assert start.client(server).get("/late")[2] is None
    assert "oops" in errors.getvalue()


def test_a_second_start_response_is_an_error(start, errors):
    def app(environ, start_response):
        start_response("200 OK", [])
        start_response("200 OK", [])
        return []

    assert start.client(start(app, error_log=errors)).get()[0] == 500


def test_start_response_inside_a_generator(start):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b""
        yield b"late"

    assert start.client(start(app)).get()[2] == b"late"


def test_start_response_and_write_may_be_kept(start):
    kept = []

    def app(environ, start_response):
        kept.append((start_response, start_response("200 OK", []), environ, environ["wsgi.input"]))
        return [HELLO]

    client = start.client(start(app))
    for _ in range(3):
        assert client.get()[2] == HELLO
    for start_response, write, environ, body in kept:
        with pytest.raises(RuntimeError, match="ended"):
            start_response("200 OK", [])
        with pytest.raises(RuntimeError, match="ended"):
            write(b"x")
        assert body.read() == b"" and environ["PATH_INFO"] == "/"
    assert len({id(entry[0]) for entry in kept}) == 3


def test_header_lists_may_be_changed_afterwards(start):
    def app(environ, start_response):
        headers = [("X", "1")]
        start_response("200 OK", headers)
        headers.append(("Y", 5))
        headers[0] = None
        return [HELLO]

    _, headers, body = start.client(start(app)).get()
    assert headers["x"] == "1" and "y" not in headers and body == HELLO


def test_wsgiref_validate(start, errors):
    def app(environ, start_response):
        body = environ["wsgi.input"].read(10) if environ["REQUEST_METHOD"] == "POST" else HELLO
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [body]

    client = start.client(start(wsgiref.validate.validator(app), error_log=errors))
    assert client.get("/path?q=1")[2] == HELLO
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
    assert client.response()[2] == b"abc" and errors.getvalue() == ""
