"""wsgi.input: every way of reading, for both framings, however the bytes arrive."""

import io
import time
import tracemalloc

import pytest

import syncless
from syncless.wsgi import BadRequest, BodyTimeout, BodyTooLarge, ClientGone, TrailersTooLarge
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

BODY = b"line one\nline two\r\n\nlast without end"


def by_length(body):
    return b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(body, size=5):
    chunks = b"".join(
        b"%x\r\n%s\r\n" % (len(body[i : i + size]), body[i : i + size]) for i in range(0, len(body), size)
    )
    return b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


READERS = {
    "read all": lambda body: [body.read()],
    "read -1": lambda body: [body.read(-1)],
    "read None": lambda body: [body.read(None)],
    "read too much": lambda body: [body.read(10**6)],
    "read 0": lambda body: [body.read(0), body.read()],
    "read by 7": lambda body: list(iter(lambda: body.read(7), b"")),
    "read by 1": lambda body: list(iter(lambda: body.read(1), b"")),
    "lines": lambda body: list(iter(body.readline, b"")),
    "limited lines": lambda body: list(iter(lambda: body.readline(4), b"")),
    "readlines": lambda body: body.readlines(),
    "readlines with a hint": lambda body: body.readlines(5) + body.readlines(),
    "iteration": lambda body: list(body),
    "read1": lambda body: list(iter(body.read1, b"")),
    "read1 by 7": lambda body: list(iter(lambda: body.read1(7), b"")),
    "text": lambda body: [io.TextIOWrapper(body, "ascii", newline="").read().encode()],
    "lines of text": lambda body: [line.encode() for line in io.TextIOWrapper(body, "ascii", newline="")],
    "buffered": lambda body: [io.BufferedReader(body).read()],
    "a block": lambda body: [whole for file in [body.__enter__()] for whole in [file.read()]],
    "mixed": lambda body: [body.readline(), body.read(3), body.readline(), body.read()],
    "readinto": lambda body: [
        bytes(buffer[:n]) for buffer in [bytearray(1000)] for n in [body.readinto(buffer)]
    ],
}
PARTS = {
    "lines": [b"line one\n", b"line two\r\n", b"\n", b"last without end"],
    "limited lines": [
        b"line",
        b" one",
        b"\n",
        b"line",
        b" two",
        b"\r\n",
        b"\n",
        b"last",
        b" wit",
        b"hout",
        b" end",
    ],
    "readlines": [b"line one\n", b"line two\r\n", b"\n", b"last without end"],
    "iteration": [b"line one\n", b"line two\r\n", b"\n", b"last without end"],
}


@pytest.mark.parametrize("reader", READERS, ids=list(READERS))
@pytest.mark.parametrize("framed", [by_length, in_chunks])
@pytest.mark.parametrize("step", [10000, 3, 1])
def test_reading(start, reader, framed, step):
    got = []

    def app(environ, start_response):
        body = environ["wsgi.input"]
        got.append(READERS[reader](body))
        got.append((body.read(), body.read(5), body.readline(), body.readlines(), list(body)))
        start_response("200 OK", [])
        return []

    client = start.client(start(app))
    data = framed(BODY)
    for i in range(0, len(data), step):
        client.send(data[i : i + step])
        syncless.sleep(0)
    assert client.response()[0] == 200
    assert b"".join(got[0]) == BODY and got[1] == (b"", b"", b"", [], [])
    if reader in PARTS:
        assert got[0] == PARTS[reader]
    assert client.get()[0] == 200, "the connection goes on behind the body"


def test_input_is_a_binary_file(start):
    """Closing it, which a TextIOWrapper does when it ends, leaves the body alone."""
    seen = []

    def app(environ, start_response):
        file = environ["wsgi.input"]
        seen.append((isinstance(file, io.BufferedIOBase), file.readable(), file.seekable(), file.writable()))
        with file as same:
            assert same is file and file.read(2) == b"ab"
        text = io.TextIOWrapper(file, "ascii")
        text.close()
        file.flush()
        assert not file.closed and not file.isatty()
        buffer = bytearray(2)
        assert file.readinto1(buffer) == 2 and buffer == b"cd"
        start_response("200 OK", [])
        return [file.read()]

    client = start.client(start(app))
    client.send(by_length(b"abcdef"))
    assert client.response()[2] == b"ef" and seen == [(True, True, False, False)]


def test_read1_gives_what_has_come(start):
    parts = []

    def app(environ, start_response):
        parts.extend(iter(environ["wsgi.input"].read1, b""))
        start_response("200 OK", [])
        return []

    client = start.client(start(app))
    data = by_length(b"abcdef")
    client.send(data[:-4])
    syncless.sleep(0.005)
    client.send(data[-4:])
    assert client.response()[0] == 200 and parts == [b"ab", b"cdef"]


@pytest.mark.parametrize("framed", [by_length, lambda body: in_chunks(body, 100_000)])
def test_large_bodies(start, framed):
    def app(environ, start_response):
        total, body = 0, environ["wsgi.input"]
        while part := body.read(1 << 18):
            total += len(part)
        start_response("200 OK", [])
        return [str(total).encode()]

    server = start(app)
    clients = [start.client(server) for _ in range(3)]
    data = framed(bytes(5_000_000))
    sending = [syncless.spawn(client.send, data) for client in clients]
    assert [client.response()[2] for client in clients] == [b"5000000"] * 3
    syncless.join_all(sending)


WAYS = {
    "readline": lambda body: len(body.readline()),
    "readline with a limit": lambda body: len(body.readline(1 << 40)),
    "readlines": lambda body: sum(map(len, body.readlines())),
    "iteration": lambda body: sum(map(len, body)),
    "read": lambda body: len(body.read()),
    "read with a limit": lambda body: len(body.read(1 << 40)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("framed", "size"),
    [(by_length, 2_000_000), (lambda body: in_chunks(body, 1), 60_000)],
    ids=["by length", "in tiny chunks"],
)
def test_reading_costs_in_proportion_to_the_body(start, framed, size, way):
    """Four times the body costs about four times the CPU time, not sixteen times."""

    def app(environ, start_response):
        got = WAYS[way](environ["wsgi.input"])
        start_response("200 OK", [])
        return [str(got).encode()]

    server = start(app)

    def cost(size):
        data = framed(b"x" * size)
        spent = []
        for _ in range(3):
            with start.client(server) as client:
                began = time.thread_time()
                sending = syncless.spawn(client.send, data)
                assert client.response()[2] == str(size).encode()
                sending.join()
                spent.append(time.thread_time() - began)
        return min(spent)

    assert cost(4 * size) < 10 * cost(size) + 0.01


@pytest.mark.parametrize("way", WAYS)
def test_many_small_pieces_take_the_room_of_one_body(start, way):
    def app(environ, start_response):
        got = WAYS[way](environ["wsgi.input"])
        start_response("200 OK", [])
        return [str(got).encode()]

    client = start.client(start(app))
    size = 1_000_000
    data = in_chunks(b"x" * size, 2)
    tracemalloc.start()
    try:
        sending = syncless.spawn(client.send, data)
        assert client.response()[2] == str(size).encode()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    sending.join()
    assert peak < 6 * size


@pytest.mark.parametrize("want", [-1, 1 << 30])
def test_an_announced_body_takes_no_room_before_it_comes(start, want):
    parked = syncless.Event()

    def app(environ, start_response):
        parked.set()
        environ["wsgi.input"].read(want)
        return []

    client = start.client(start(app))
    tracemalloc.start()
    try:
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1 << 30) + b"x" * 100_000)
        assert parked.wait(10)
        assert eventually(
            lambda: any(tasklet.waiting_for == "request body" for tasklet in syncless.tasklets())
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    client.close()


def test_100_continue_is_said_when_the_body_is_wanted(start):
    def app(environ, start_response):
        wanted = environ["PATH_INFO"] == "/wanted"
        body = environ["wsgi.input"].read() if wanted else b"no"
        start_response("200 OK", [])
        return [body]

    server = start(app)
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    client = start.client(server)
    client.send(head % b"/wanted")
    assert client.response() == (100, {}, b"")
    client.send(b"abc")
    assert client.response()[2] == b"abc"
    client.send(head % b"/wanted" + b"xyz")  # it did not wait: no interim answer
    assert client.response()[2] == b"xyz"
    client.send(head % b"/unwanted")
    assert client.response()[2] == b"no" and client.at_end(), (
        "the client may or may not send the body: the connection is of no more use"
    )


@pytest.mark.parametrize("way", ["write", "generator"])
def test_no_100_continue_comes_inside_an_answer(start, way):
    """RFC 9110, 15.2: interim answers precede the final one."""

    def parts(body):
        yield b"begun "
        yield body.read()

    def app(environ, start_response):
        write = start_response("200 OK", [])
        if way == "generator":
            return parts(environ["wsgi.input"])
        write(b"begun ")
        return [environ["wsgi.input"].read()]

    client = start.client(start(app))
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    while b"begun " not in client.buffer:
        assert client._more()
    syncless.sleep(0.01)
    client.send(b"abc")
    assert client.response()[::2] == (200, b"begun abc")
    assert client.get()[0] == 200


def test_an_unread_body_is_drained_or_the_connection_closed(start):
    server = start(lambda environ, start_response: start_response("200 OK", []) and [b"ok"], drain_bytes=1000)
    client = start.client(server)
    client.send(by_length(b"x" * 900)[:-500])
    syncless.sleep(0.01)
    client.send(b"x" * 500)
    assert client.response()[2] == b"ok" and client.get()[2] == b"ok"
    client.send(in_chunks(b"x" * 900))
    assert client.response()[2] == b"ok" and client.get()[2] == b"ok"
    client.send(by_length(b"x" * 1100))
    assert client.response()[2] == b"ok" and client.at_end()
    other = start.client(server)
    other.send(in_chunks(b"x" * 1500))
    assert other.response()[2] == b"ok" and other.at_end()


def test_body_of_a_vanished_client_raises_client_gone(start):
    seen = []

    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except ClientGone as error:
            seen.append(error)
            raise
        return []

    server = start(app)
    for data in (by_length(b"abc")[:-1], in_chunks(b"abc")[:-5], in_chunks(b"abc")[:-8]):
        client = start.client(server)
        client.send(data)
        syncless.sleep(0.005)
        client.close()
        for _ in range(500):
            if seen:
                break
            syncless.sleep(0.002)
        assert len(seen) == 1 and isinstance(seen.pop(), ConnectionError)


def test_errors_of_the_body_reach_the_application_and_then_the_client(start):
    seen = []

    def app(environ, start_response):
        try:
            return [environ["wsgi.input"].read()]
        except Exception as error:
            seen.append(error)
            raise

    server = start(app, body_bytes=100, trailer_bytes=100, body_seconds=0.5)
    cases = [
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BadRequest, 400),
        (in_chunks(b"x" * 200), BodyTooLarge, 413),
        (in_chunks(b"x")[:-2] + b"A: b\r\n" * 20 + b"\r\n", TrailersTooLarge, 431),
        (by_length(b"abc")[:-1], BodyTimeout, 408),
    ]
    for data, kind, status in cases:
        client = start.client(server)
        client.send(data)
        assert client.response()[0] == status and client.at_end()
        assert type(seen.pop()) is kind


def test_an_application_may_answer_a_bad_body_itself(start):
    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except BadRequest:
            start_response("422 Unprocessable Content", [])
            return [b"mine"]

    client = start.client(start(app))
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    status, _, body = client.response()
    assert (status, body) == (422, b"mine") and client.at_end()


def test_reading_in_another_tasklet(start):
    def app(environ, start_response):
        body = syncless.spawn(environ["wsgi.input"].read).result()
        start_response("200 OK", [])
        return [body]

    client = start.client(start(app))
    data = by_length(b"abc")
    client.send(data[:-2])
    syncless.sleep(0.005)
    client.send(data[-2:])
    assert client.response()[2] == b"abc"


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_request_that_ends_while_another_tasklet_reads_its_body_closes_its_connection(start, framing):
    """That tasklet meets its end. The server cannot read the rest away beside it."""
    told = []

    def read(body):
        try:
            told.append(body.read())
        except ClientGone as error:
            told.append(error)

    def app(environ, start_response):
        syncless.spawn(read, environ["wsgi.input"])
        syncless.sleep(0)
        start_response("200 OK", [])
        return [b"done"]

    client = start.client(start(app))
    client.send(f"POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode())
    status, fields, body = client.response()
    assert (status, fields["connection"], body) == (200, "close", b"done")
    assert eventually(lambda: told) and isinstance(told[0], ClientGone)
    client.sock.shutdown(1)
    assert client.at_end()
