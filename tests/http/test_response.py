"""Responses: the rules for applications (PEP 3333) and for the bytes (RFC 9110, RFC 9112)."""

import email.utils
import gzip
import io
import os
import struct
import sys
import tempfile
import time

import pytest

import syncless
from syncless.io import files, socket
from tests.virtualtime import set_system_time
from tests.wsgi.applications import HELLO, plain

pytestmark = pytest.mark.virtual_time


def test_the_shortest_answer(start):
    client = start.client(start(plain(HELLO)))
    status, headers, body = client.get()
    assert (status, body) == (200, HELLO)
    assert headers["content-length"] == "13" and headers["content-type"] == "text/plain"
    assert (
        headers["server"] == "syncless" and headers["date"].endswith(" GMT") and "connection" not in headers
    )
    assert client.get()[0] == 200


@pytest.mark.parametrize(
    "parts", [[], [b""], [b"a", b"b"], [b"", b"a", b""], [b"x" * 20000], [b"x" * 20000, b"y" * 300000]]
)
@pytest.mark.parametrize("kind", [list, tuple, iter, lambda parts: (part for part in parts)])
def test_bodies_of_all_shapes(start, parts, kind):
    def app(environ, start_response):
        start_response("200 OK", [])
        return kind(parts)

    server = start(app)
    client = start.client(server)
    for _ in range(2):
        status, headers, body = client.get()
        assert status == 200 and body == b"".join(parts)
        assert ("content-length" in headers) == (kind in (list, tuple) or not any(parts))
    old = start.client(server)
    old.send(b"GET / HTTP/1.0\r\n\r\n")
    status, headers, body = old.response()
    assert body == b"".join(parts) and "transfer-encoding" not in headers and headers["connection"] == "close"


def test_list_subclasses_and_iterables_are_closed(start, errors):
    closed = []

    class Body(list):
        def close(self):
            closed.append("list")

    class Lines:
        def __init__(self, fail):
            self.fail = fail

        def __iter__(self):
            yield b"part"
            if self.fail:
                raise RuntimeError("in mid-stream")

        def close(self):
            closed.append("lines")

    bodies = {"/list": lambda: Body([HELLO]), "/good": lambda: Lines(False), "/bad": lambda: Lines(True)}

    def app(environ, start_response):
        start_response("200 OK", [])
        return bodies[environ["PATH_INFO"]]()

    server = start(app, error_log=errors)
    client = start.client(server)
    assert client.get("/list")[2] == HELLO and client.get("/good")[2] == b"part"
    assert client.get("/bad")[2] is None, "an error in mid-stream must not look like a clean end"
    assert closed == ["list", "lines", "lines"] and "in mid-stream" in errors.getvalue()


def test_http_1_0_errors_in_mid_stream_are_a_reset(start, errors):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"part"
        raise RuntimeError("in mid-stream")

    client = start.client(start(app, error_log=errors))
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.response()[2] is None


def test_close_is_called_when_the_client_leaves(start):
    closed = []

    class Endless:
        def __iter__(self):
            while True:
                yield b"x" * 100000

        def close(self):
            closed.append(True)

    def app(environ, start_response):
        start_response("200 OK", [])
        return Endless()

    server = start(app)
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    client.sock.recv(1000)
    client.close()
    for _ in range(500):
        if closed:
            break
        syncless.sleep(0.002)
    assert closed == [True]


@pytest.mark.parametrize("headers", [[], [("Content-Length", "13")]])
@pytest.mark.parametrize("streamed", [False, True])
def test_205_has_no_content_and_says_so(start, headers, streamed):
    """RFC 9110, 15.3.6. A client reads its body as it is framed, unlike that of a 204."""

    def app(environ, start_response):
        start_response("205 Reset Content", headers)
        return iter([HELLO]) if streamed else [HELLO]

    client = start.client(start(app))
    for _ in range(3):
        status, seen, body = client.get()
        assert (status, seen["content-length"], body) == (205, "0", b"") and "transfer-encoding" not in seen
    client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response(head_only=True)[0] == 205
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    assert client.response()[2] == b"" and client.at_end()


@pytest.mark.parametrize(
    ("value", "closes"),
    [
        ("close", True),
        ("Close", True),
        ("close, x", True),
        ("x ,\tCLOSE", True),
        ("closed, x-close", False),
        ("", False),
    ],
)
def test_connection_header_of_the_application_is_a_list(start, value, closes):
    client = start.client(start(plain(HELLO, headers=[("Connection", value)])))
    for _ in range(1 if closes else 2):
        _, headers, body = client.get()
        assert headers.get("connection") == ("close" if closes else None) and body == HELLO
    assert not closes or client.at_end()


def test_text_of_a_client_reaches_the_error_log_escaped(start, errors):
    """It begins no line of its own and moves no cursor, neither from the path nor from an exception's
    message."""

    def app(environ, start_response):
        names.append(syncless.current().name)
        if environ["PATH_INFO"].startswith("/long"):
            start_response("200 OK", [("Content-Length", "1")])
            return [HELLO]
        raise ValueError(environ["QUERY_STRING"] + environ["PATH_INFO"].partition("Error")[2])

    names = []
    client = start.client(start(app, error_log=errors))
    forged = "%0d%0aError%20in%20GET%20/forged:%1b[2J%7f%c2%85%9b31m%E2%80%A8"
    assert client.get(f"/boom{forged}")[0] == 500
    client = start.client(start(app, error_log=errors))
    assert client.get(f"/long{forged}")[0] == 200
    lines = errors.getvalue().split("\n")
    assert all(line.replace("\t", " ").isprintable() for line in lines)
    entries = [line.rpartition("] ")[2] for line in lines if line.startswith("[")]
    assert [entry[:18] for entry in entries] == ["Error in GET /boom", "GET /long\\r\\nError"]
    assert all(line.startswith(("[", "  ")) for line in lines[:-1])
    assert all(name.isprintable() for name in names) and "\\x1b[2J" in names[0]


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_statuses_without_a_body(start, status):
    client = start.client(start(plain(b"must not go out", status=status, headers=[("Content-Length", "15")])))
    for _ in range(2):
        code, headers, _ = client.get()
        assert code == int(status[:3]) and "transfer-encoding" not in headers
        assert ("content-length" in headers) == (code == 304)


def test_head(start):
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "13")] if environ["PATH_INFO"] == "/given" else [])
        if environ["PATH_INFO"] == "/stream":
            return (part for part in [b"a", b"b"])
        return [HELLO] if environ["PATH_INFO"] != "/empty" else []

    client = start.client(start(app))
    for path, length in [("/given", "13"), ("/list", "13"), ("/empty", None), ("/stream", None)]:
        client.send(f"HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        status, headers, _ = client.response(head_only=True)
        assert (
            status == 200 and headers.get("content-length") == length and "transfer-encoding" not in headers
        )
    assert client.get("/list")[2] == HELLO


def test_too_much_body_is_cut_and_too_little_aborts(start, errors):
    lengths = {"/more": "3", "/less": "20"}

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", lengths[environ["PATH_INFO"]])])
        return iter([HELLO])

    server = start(app, error_log=errors)
    client = start.client(server)
    assert client.get("/more")[2] == HELLO[:3] and client.at_end()
    assert start.client(server).get("/less")[2] is None
    assert (
        "the body is longer than its Content-Length" in errors.getvalue()
        and "13 bytes, but its Content-Length is 20" in errors.getvalue()
    )


def test_connection_headers(start):
    server = start(
        plain(
            HELLO, headers=[("Keep-Alive", "timeout=5"), ("Transfer-Encoding", "chunked"), ("Upgrade", "x")]
        )
    )
    client = start.client(server)
    _, headers, body = client.get("/", "Connection: close\r\n")
    assert headers["connection"] == "close" and body == HELLO and client.at_end()
    assert not {"keep-alive", "transfer-encoding", "upgrade"} & headers.keys()
    old = start.client(server)
    old.send(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
    assert old.response()[1]["connection"] == "keep-alive"
    old.send(b"GET / HTTP/1.0\r\n\r\n")
    assert old.response()[1]["connection"] == "close" and old.at_end()
    closing = start.client(start(plain(HELLO, headers=[("Connection", "close")])))
    assert closing.get()[1]["connection"] == "close" and closing.at_end()


def test_426_names_the_protocols_to_upgrade_to(start):
    """RFC 9110, 15.5.22 and 7.8: Upgrade, and the connection option that goes with it."""
    fields = [("Upgrade", "HTTP/2.0, websocket"), ("Keep-Alive", "timeout=5")]
    client = start.client(start(plain(b"later", status="426 Upgrade Required", headers=fields)))
    for _ in range(2):  # the second head is that of the first
        status, headers, body = client.get()
        assert (status, body) == (426, b"later") and "keep-alive" not in headers
        assert (headers["upgrade"], headers["connection"]) == ("HTTP/2.0, websocket", "Upgrade")


def test_applications_date_and_server_win(start):
    _, headers, _ = start.client(start(plain(headers=[("Date", "then"), ("Server", "mine")]))).get()
    assert (headers["date"], headers["server"]) == ("then", "mine")
    _, headers, _ = start.client(start(plain(headers=[("Server", "mine")]))).get()
    assert headers["date"].endswith("GMT") and headers["server"] == "mine"


def test_streaming_is_not_delayed(start):
    gate = syncless.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"first"
        gate.wait()
        yield b"second"

    client = start.client(start(app))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    while b"first" not in client.buffer:
        assert client._more()
    gate.set()
    assert client.response()[2] == b"firstsecond"


def test_slow_application_holds_up_no_other_request(start):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/slow":
            syncless.sleep(1)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    server = start(app)
    slow = [start.client(server) for _ in range(20)]
    for client in slow:
        client.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    fast = start.client(server)
    for _ in range(20):
        with syncless.Timeout(0.7):
            assert fast.get("/fast")[2] == b"/fast"
    with syncless.Timeout(10):
        assert [client.response()[2] for client in slow] == [b"/slow"] * 20


@pytest.mark.parametrize("mode", ["direct", "pool"])
def test_file_wrapper(start, tmp_path, mode):
    """By sendfile, and from a file system that is asked in threads."""
    files.set_mode(mode)
    try:
        check_file_wrapper(start, tmp_path)
    finally:
        files.set_mode("adaptive")


def check_file_wrapper(start, tmp_path):
    data = bytes(range(256)) * 5000
    path = tmp_path / "file"
    path.write_bytes(data)
    closed = []

    class Memory(io.BytesIO):
        def close(self):
            closed.append(True)

    def app(environ, start_response):
        wrapper = environ["wsgi.file_wrapper"]
        if environ["PATH_INFO"] == "/memory":
            start_response("200 OK", [])
            return wrapper(Memory(data), 1000)
        file = open(path, "rb")  # noqa: SIM115  (the server closes it)
        file.seek(10)
        start_response("200 OK", [("Content-Length", "100")] if environ["PATH_INFO"] == "/part" else [])
        return wrapper(file)

    client = start.client(start(app))
    assert client.get("/")[2] == data[10:]
    assert client.get("/part")[2] == data[10:110]
    assert client.get("/memory")[2] == data and closed
    client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response(head_only=True)[1]["content-length"] == str(len(data) - 10)
    assert client.get("/part")[2] == data[10:110]


class Upper(io.FileIO):
    def read(self, size=-1):
        return super().read(size).upper()


class UpperBuffered(io.BufferedReader):
    def read(self, size=-1):
        return super().read(size).upper()


class Wrapped:
    def __init__(self, file):
        self.read = lambda size=-1: file.read(size).upper()
        self.fileno, self.tell, self.close = file.fileno, file.tell, file.close


def spoilt(file):
    file.read = lambda size=-1, read=file.read: read(size).upper()
    return file


def advanced(file, size=3):
    file.read(size)
    return file


def reader(path, buffering=-1):
    return open(path, "rb", buffering)  # the server closes it


def written(path):
    file = open(path, "r+b")  # noqa: SIM115  (the server closes it)
    file.write(b"ABC")
    return file


FILES = {
    "gzip": (lambda path: gzip.GzipFile(f"{path}.gz"), b"packed" * 1000, False),
    "subclass": (Upper, b"ABCDEF" * 1000, False),
    "buffered subclass": (lambda path: UpperBuffered(io.FileIO(path)), b"ABCDEF" * 1000, False),
    "buffered over a subclass": (lambda path: io.BufferedReader(Upper(path)), b"abcdef" * 1000, False),
    "wrapper": (lambda path: Wrapped(reader(path)), b"ABCDEF" * 1000, False),
    "read of its own": (lambda path: spoilt(reader(path)), b"ABCDEF" * 1000, False),
    "raw": (lambda path: advanced(reader(path, 0)), b"def" + b"abcdef" * 999, True),
    "buffered": (lambda path: advanced(reader(path)), b"def" + b"abcdef" * 999, True),
    "to write, too": (written, b"def" + b"abcdef" * 999, True),
    "of syncless": (lambda path: advanced(files.open(path, "rb")), b"def" + b"abcdef" * 999, True),
    "of syncless, raw": (lambda path: advanced(files.open(path, "rb", 0)), b"def" + b"abcdef" * 999, True),
    "temporary": (lambda path: named(b"abcdef" * 1000), b"def" + b"abcdef" * 999, False),
}


def named(data):
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115  (the server closes it)
    file.write(data)
    file.seek(0)
    return advanced(file)


@pytest.mark.parametrize("kind", FILES)
def test_file_wrapper_sends_the_bytes_that_read_gives(start, tmp_path, kind):
    """By its descriptor only where those are the same (PEP 3333)."""
    make, expected, direct = FILES[kind]
    path = tmp_path / "file"
    path.write_bytes(b"abcdef" * 1000)
    with gzip.open(f"{path}.gz", "wb") as packed:
        packed.write(b"packed" * 1000)
    known = []

    def app(environ, start_response):
        start_response("200 OK", [])
        wrapper = environ["wsgi.file_wrapper"](make(path))
        known.append(wrapper.region() is not None)
        return wrapper

    client = start.client(start(app))
    for _ in range(2):
        assert client.get()[2] == expected
        path.write_bytes(b"abcdef" * 1000)
    assert known == [direct, direct]


@pytest.mark.parametrize("mode", ["r", "wb", "closed"])
def test_file_wrapper_of_a_file_that_gives_no_bytes_is_an_error(start, tmp_path, errors, mode):
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")

    def app(environ, start_response):
        start_response("200 OK", [])
        file = open(path, "rb" if mode == "closed" else mode)  # noqa: SIM115  (the server closes it)
        if mode == "closed":
            file.close()
        return environ["wsgi.file_wrapper"](file)

    client = start.client(start(app, error_log=errors))
    assert client.get()[0] == 500 and "Traceback" in errors.getvalue()


def data_segments(client):
    """How many segments with data the client's kernel has received (tcp(7), TCP_INFO)."""
    if not hasattr(socket, "TCP_INFO") or sys.platform != "linux":
        pytest.skip("only Linux counts segments")
    told = client.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(told) < 156:
        pytest.skip("the kernel, or an emulator of it, does not count segments")
    return struct.unpack_from("I", told, 152)[0]


@pytest.mark.parametrize(
    ("body", "segments"),
    [
        ([HELLO], 1),
        ([HELLO, HELLO], 1),
        ([b"x" * 20_000], 1),
        (iter([HELLO]), 2),
    ],  # a generator's last chunk comes when it ends
    ids=["one part", "two parts", "a large part", "a generator"],
)
def test_head_and_first_part_leave_together(start, body, segments):
    """One system call, one segment: on the loopback, whose segments take 64 kB, that is what the client's
    kernel counts."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return body

    client = start.client(start(app))
    before = data_segments(client)
    assert client.get()[0] == 200
    assert data_segments(client) - before == segments


def test_nagle_is_off(start):
    """A peer that leaves it on loses 40 ms with each request whose answer has two parts."""
    client = start.client(start(lambda environ, start_response: start_response("200 OK", []) and [HELLO]))
    client.get()
    mine = client.sock.getsockname()
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as other:
                if other.family == socket.AF_INET and other.getpeername()[:2] == mine:
                    found.append(other.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        except OSError:
            pass
    assert len(found) == 1 and found[0]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_early_hints_come_before_the_response(start, version):
    def app(environ, start_response):
        hint = environ["wsgi.early_hints"]
        hint([("Link", "</a.css>; rel=preload"), (b"X-More", b"1")])
        write = start_response("200 OK", [("Content-Length", "5")])
        hint([("Link", "</c>")])
        write(b"he")
        hint([("Link", "</d>")])  # too late
        return [b"llo"]

    client = start.client(start(app))
    client.send(f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    if version == "1.1":
        assert client.response()[:2] == (103, {"link": "</a.css>; rel=preload", "x-more": "1"})
        assert client.response()[:2] == (103, {"link": "</c>"})
    assert client.response()[::2] == (200, b"hello")


@pytest.mark.parametrize(
    ("name", "value"), [("Link", "a\r\nb: c"), ("a b", "c"), ("", "c"), ("Link", "\u0100")]
)
def test_early_hint_that_cannot_be_sent_is_refused(start, name, value):
    def app(environ, start_response):
        with pytest.raises(ValueError):
            environ["wsgi.early_hints"]([("Link", "</a>"), (name, value)])
        start_response("200 OK", [])
        return [b"hello"]

    assert start.client(start(app)).get()[::2] == (200, b"hello")


def test_early_hints_are_for_the_tasklet_of_the_request(start):
    def app(environ, start_response):
        def refused():
            with pytest.raises(RuntimeError, match="in the tasklet of the request"):
                environ["wsgi.early_hints"]([("Link", "</a>")])
            return True

        assert syncless.spawn(refused).result()
        start_response("200 OK", [])
        return [b"hello"]

    assert start.client(start(app)).get()[::2] == (200, b"hello")


def test_date_is_that_of_the_answer(start):
    """Also behind a computation, and if the system's time is set back."""

    def app(environ, start_response):
        time.sleep(float(environ["QUERY_STRING"]))  # the loop does not turn meanwhile
        start_response("200 OK", fields)
        return [HELLO]

    def date(seconds):
        return email.utils.parsedate_to_datetime(client.get(f"/?{seconds}")[1]["date"])

    fields = [("Content-Length", str(len(HELLO)))]
    client = start.client(start(app))
    first = date(0)
    assert (date(3) - first).total_seconds() == 3
    set_system_time(-3600)
    assert (date(0) - first).total_seconds() == 3 - 3600
