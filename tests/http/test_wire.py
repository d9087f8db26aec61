"""cases.json over a real socket: each request whole, byte by byte, and split at every position; all must end
alike."""

import json
import pathlib
import random
import urllib.parse

import pytest

import syncless
from syncless.http.errors import ClientError
from syncless.http.request import HeadRequest
from syncless.http.wire import wire

IN_TRAILERS = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
CASES = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text())
BEYOND_LIMITS = [
    (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {"request_line": 200}, 414),
    (b"GET /" + b"a" * 300, {"request_line": 200}, 414),
    (b"G" * 300, {"request_line": 200}, 414),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20 + b"\r\n", {"header_count": 20}, 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 1000 + b"\r\n\r\n", {"head_bytes": 1000}, 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 1000, {"head_bytes": 1000}, 431),
    (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"x" * 1000, {"head_bytes": 1000}, 431),
    (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", {"body_bytes": 10}, 413),
    (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n6\r\n",
        {"body_bytes": 10},
        413,
    ),
    (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n6;" + b"x" * 300,
        {"chunk_line": 100},
        413,
    ),
    (IN_TRAILERS + b"A: " + b"x" * 98, {"trailer_bytes": 100}, 431),
    (IN_TRAILERS + b"A: b\r\n" * 17 + b"\r\n", {"trailer_bytes": 100}, 431),
    (IN_TRAILERS + b"A: " + b"x" * 98 + b"\0\r\n\r\n", {"trailer_bytes": 100}, 431),
    (IN_TRAILERS + b"A: " + b"x" * 97 + b"\0\r\n\r\n", {"trailer_bytes": 100}, 400),
]
"""(request, limits, status)"""


def echo(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return [environ["wsgi.input"].read()]


def raw(case):
    return case["request"].encode("latin-1")


def check(client, case):
    status, headers, body = client.response()
    assert status == case["outcome"], case["reason"]
    assert {"date", "server"} <= headers.keys()
    if status != 200:
        assert headers["connection"] == "close" and client.at_end(), (
            "after a framing error nothing more is read"
        )
    elif "body" in case:
        assert body.decode("latin-1") == case["body"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_whole_bytewise_and_split(start, case):
    server = start(echo, defer_accept=False)
    data = raw(case)
    pieces = [[data], [data[i : i + 1] for i in range(len(data))]]
    pieces += [[data[:i], data[i:]] for i in range(1, len(data))]
    for parts in pieces:
        with start.client(server) as client:
            for part in parts:
                try:
                    client.send(part)
                except (BrokenPipeError, ConnectionResetError):
                    break  # it has been refused already
                for _ in range(2 if len(parts) > 2 else 4):
                    syncless.sleep(0)
            check(client, case)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_scanner_says_the_same_of_every_prefix(case):
    """Incomplete, then for ever the same: a decision never depends on bytes that come later."""
    data = raw(case)
    final = wire.parse(data)
    decided = False
    for size in range(len(data) + 1):
        found = wire.parse(data[:size])
        if found is not None:
            decided = True
            assert found == final
        else:
            assert not decided
    if case["outcome"] == 200:
        assert isinstance(final, tuple)


def test_paths_are_decoded_as_by_urllib():
    choose = random.Random(1)
    for _ in range(2000):
        path = b"/" + bytes(choose.choice(b"%%%2fF41gz/\xe9+") for _ in range(choose.randrange(12)))
        request = HeadRequest(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path, "")
        assert request.path.encode("latin-1") == urllib.parse.unquote_to_bytes(path)


@pytest.mark.parametrize(("request_", "limits", "status"), BEYOND_LIMITS)
@pytest.mark.parametrize("step", [10000, 1])
def test_limits(start, request_, limits, status, step):
    client = start.client(start(echo, **limits))
    for i in range(0, len(request_), step):
        try:
            client.send(request_[i : i + step])
        except OSError:
            break
        syncless.sleep(0)
    assert client.response()[0] == status
    assert client.at_end()


CHUNKED = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\n\r\n",
            "The request has more or larger header fields than this server accepts.",
        ),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
            "This server is no proxy: it does not support the method CONNECT.",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n",
            "This server supports only the expectation 100-continue.",
        ),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "This server supports only HTTP/1.0 and HTTP/1.1."),
        (CHUNKED + "x\r\n", "The line before a chunk of the body does not follow HTTP/1.1."),
        (
            CHUNKED + "1;a=" + "b" * 9000,
            "The line before a chunk of the body is longer than this server accepts.",
        ),
        (CHUNKED + "1\r\nab", "A chunk of the body is not as long as it says."),
        (CHUNKED + "0\r\nHost: a\r\n\r\n", "The trailers of the request do not follow HTTP/1.1."),
        (
            CHUNKED + "0\r\na: " + "b" * 70000,
            "The trailers of the request are larger than this server accepts.",
        ),
        (CHUNKED + "FFFFFFFFFFFFFF\r\n", "The request body is larger than this server accepts."),
    ],
)
def test_refusals_tell_the_client_their_reason(start, request_, text):
    client = start.client(start(echo, header_count=2))
    client.send(request_.encode())
    assert client.response()[2].decode().splitlines()[1:] == [text]


def test_error_of_an_application_is_answered_by_its_status(start):
    class Full(ClientError):
        status = 413

    def application(environ, start_response):
        raise Full("no more today")

    client = start.client(start(application))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, _, body = client.response()
    assert status == 413 and body.startswith(b"413 Content Too Large\nThe request body is larger than this")


REFUSED_HEADS = [
    (b"HEAD / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", {}, 400),
    (b"\r\n\r\nHEAD / HTTP/1.1\r\n\r\n", {}, 400),
    (b"HEAD / HTTP/2.0\r\nHost: a\r\n\r\n", {}, 505),
    (b"HEAD /" + b"a" * 300, {"request_line": 200}, 414),
    (b"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", {"body_bytes": 10}, 413),
]


@pytest.mark.parametrize(("request_", "limits", "status"), REFUSED_HEADS)
def test_refused_head_request_gets_no_body(start, request_, limits, status):
    client = start.client(start(echo, **limits))
    client.send(request_)
    got, headers, _ = client.response(head_only=True)
    assert got == status and int(headers["content-length"]) > 0 and client.at_end()


def test_requests_exactly_at_a_limit_pass(start):
    head = b"GET /" + b"a" * 186 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    client = start.client(start(echo, request_line=head.index(b"\r"), head_bytes=len(head), header_count=1))
    client.send(head)
    assert client.response()[0] == 200


def test_trailers_exactly_at_their_limit_pass(start):
    client = start.client(start(echo, trailer_bytes=102))
    client.send(IN_TRAILERS + b"A: b\r\n" * 17 + b"\r\n")
    assert client.response()[::2] == (200, b"abc")


def test_pipelined_requests_are_answered_in_order(start):
    def app(environ, start_response):
        if environ["PATH_INFO"].endswith("0"):
            syncless.sleep(0.001)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    server = start(app)
    data = b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(300))
    for step in (len(data), 7, 1000):
        client = start.client(server)
        sending = syncless.spawn(
            lambda client=client, step=step: [
                client.send(data[i : i + step]) for i in range(0, len(data), step)
            ]
        )
        assert [client.response()[2] for _ in range(300)] == [b"/%d" % number for number in range(300)]
        sending.join()


def test_a_body_is_not_taken_for_a_request(start):
    client = start.client(start(lambda environ, start_response: start_response("200 OK", []) and [b"unread"]))
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
        + smuggled
        + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    assert client.response()[2] == client.response()[2] == b"unread"
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    assert client.response()[2] == client.response()[2] == b"unread"
    assert client.at_end()


@pytest.mark.parametrize("remembered", [0, 1, 1000])
def test_remembered_fields_are_those_of_the_same_connection_and_bytes(start, remembered):
    def app(environ, start_response):
        start_response("200 OK", [])
        seen = environ.pop("HTTP_COOKIE", "none")
        environ["HTTP_COOKIE"] = "spoilt"
        shown = [environ["PATH_INFO"], environ["SERVER_PROTOCOL"], environ.get("HTTP_X", "-"), seen]
        return [" ".join(shown).encode()]

    server = start(app, remembered=remembered)
    first, second = start.client(server), start.client(server)
    for _ in range(3):
        assert first.get("/a", "Cookie: one\r\nX: 1\r\n")[2] == b"/a HTTP/1.1 1 one"
        assert second.get("/b", "Cookie: two\r\nX: 1\r\n")[2] == b"/b HTTP/1.1 1 two"
        assert first.get("/c", "Cookie: one\r\nX: 2\r\n")[2] == b"/c HTTP/1.1 2 one"
        assert second.get("/d", "Cookie: two\r\nX: 1\r\n")[2] == b"/d HTTP/1.1 1 two"
        assert second.get("/d", "")[2] == b"/d HTTP/1.1 - none"
    first.send(b"GET /e HTTP/1.0\r\nHost: test\r\nCookie: one\r\nX: 2\r\n\r\n")
    assert first.response()[2] == b"/e HTTP/1.0 2 one"
