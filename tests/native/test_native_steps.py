"""Requests that native handlers answer in steps: bodies in pieces, responses in pieces over time."""

import os
import random

import pytest

import syncless
from tests.waiting import eventually

ROUTES = {
    "/sum": "sum",
    "/mirror": "mirror",
    "/greet": "greet",
    "/steps": "steps",
    "/hello": "hello",
    "/released": "count_released",
}
PIECES = ("sum", "mirror", "greet")


@pytest.fixture
def stepping(served, handlers):
    """A Server with the handlers of this page; those that read are registered for pieces."""

    def begin(**options):
        routes = {path: handlers(name, pieces=name in PIECES) for path, name in ROUTES.items()}
        return served(routes, **options)

    begin.client = served.client
    return begin


@pytest.fixture
def turned(stepped, handlers):
    """The same as a Stepped."""

    def begin(**limits):
        return stepped(
            {path: handlers(name, pieces=name in PIECES) for path, name in ROUTES.items()}, **limits
        )

    return begin


def request(method, path, body=b"", *fields, chunk=0):
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\n" + "".join(f"{field}\r\n" for field in fields)
    if not chunk:
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    pieces = [body[i : i + chunk] for i in range(0, len(body), chunk)]
    return (
        head.encode()
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
        + b"0\r\n\r\n"
    )


def summed(path, body):
    return f"{path} {len(body)} {sum(body)}".encode()


@pytest.mark.parametrize("chunk", [0, 1000, 100_000])
def test_body_of_any_size_is_read_without_holding_it(stepping, chunk):
    server = stepping()
    client = stepping.client(server)
    body = random.Random(1).randbytes(1 << 20) * 4
    held = []
    watching = syncless.spawn(watch_held, server, held)
    for _ in range(2):
        sending = syncless.spawn(client.send, request("POST", "/sum?x", body, chunk=chunk))
        assert client.response()[2] == summed("/sum", body)
        sending.join()
    watching.kill()
    assert max(held) < 1 << 20
    assert server.lanes[0]._threads.handed_over == 0
    assert client.get("/hello")[2] == b"Hello, World!"


def watch_held(server, held):
    while True:
        held.append(server.lanes[0].figures()["buffered_bytes"])
        syncless.sleep(0.005)


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_body_in_any_pieces_is_the_same(turned, chunk):
    body = b"body of a request"
    data = request("POST", "/sum", body, chunk=chunk) + b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    parts = [[data], [data[i : i + 1] for i in range(len(data))]]
    parts += [[data[:i], data[i:]] for i in range(1, len(data))]
    for each in parts:
        server = turned()
        for part in each:
            assert server.send(part)
        server.turn(3)
        answer, ended = server.received()
        assert answer.count(b"HTTP/1.1 200 OK") == 2 and summed("/sum", body) in answer, (each, answer)
        assert answer.endswith(b"Hello, World!") and not ended
        server.close()


def test_requests_without_body_have_the_empty_piece_alone(turned):
    server = turned()
    for data in (
        b"GET /sum HTTP/1.1\r\nHost: a\r\n\r\n",
        request("POST", "/sum"),
        request("POST", "/sum", chunk=1),
    ):
        for _ in range(3):  # the head is remembered
            server.send(data)
            server.turn()
            assert server.received()[0].endswith(b"/sum 0 0")


def test_client_is_asked_for_a_body_that_is_read_in_pieces(turned):
    server = turned()
    head = b"POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    for _ in range(2):
        server.send(head)
        assert server.received() == (b"HTTP/1.1 100 Continue\r\n\r\n", False)
        server.send(b"ab")
        server.send(b"c")
        server.turn()
        assert server.received()[0].endswith(summed("/sum", b"abc"))


def test_client_is_not_asked_for_its_body_inside_a_response(turned):
    server = turned()
    for _ in range(2):
        server.send(b"POST /greet HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        answer, _ = server.received()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\n6\r\nbegun \r\n")
        server.send(b"abc")
        server.turn()
        assert server.received()[0].startswith(b"3\r\nabc\r\n0\r\n\r\n")


def test_request_behind_a_response_that_began_before_a_stop_is_answered(turned):
    """The head of the first says nothing of a close."""
    server = turned()
    server.send(b"POST /mirror HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    assert b"Connection: close" not in server.received()[0]
    server.threads.stop()
    server.send(b"0\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    server.turn(2)
    answer, ended = server.received()
    assert b"Connection: close" in answer and answer.endswith(b"Hello, World!") and ended


def test_pieces_are_mirrored_when_they_come(turned):
    server = turned()
    server.send(b"POST /mirror HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    first, _ = server.received()
    assert b"Transfer-Encoding: chunked\r\n" in first and first.endswith(b"\r\n\r\n3\r\nabc\r\n")
    server.send(b"2\r\nde\r\n")
    assert server.received()[0] == b"2\r\nde\r\n"
    server.send(b"0\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
    server.turn(2)
    rest, ended = server.received()
    assert rest.startswith(b"0\r\n\r\nHTTP/1.1 200 OK") and rest.endswith(b"Hello, World!") and not ended


@pytest.mark.parametrize(
    ("data", "limits", "status"),
    [
        (request("POST", "/sum", b"x" * 11), {"body_bytes": 10}, 413),
        (request("POST", "/sum", b"x" * 11, chunk=6), {"body_bytes": 10}, 413),
        (b"POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", {}, 400),
        (b"POST /sum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", {}, 400),
    ],
)
def test_body_that_is_refused_between_its_pieces(turned, data, limits, status):
    server = turned(**limits)
    server.send(data)
    server.turn(2)
    answer, ended = server.received()
    assert answer.startswith(b"HTTP/1.1 %d " % status) and answer.count(b"Date: ") == 1 and ended
    assert b"Connection: close" in answer


def test_late_piece_is_a_408(turned):
    server = turned(body_seconds=0.05)
    server.send(b"POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
    answer, ended = b"", False
    for _ in range(100):
        server.threads.turn(0, 0.05)
        more, ended = server.received()
        answer += more
        if ended:
            break
    assert ended and answer.startswith(b"HTTP/1.1 408 ")


def test_slow_sender_is_refused_though_it_sends_all_the_time(turned):
    server = turned(body_rate=1e9, body_grace_seconds=0.1)
    server.send(b"POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
    for _ in range(5000):
        if not server.send(b"a"):
            break
        server.threads.turn(0, 0.001)
        answer, _ = server.received()
        if answer:
            assert answer.startswith(b"HTTP/1.1 408 ")
            break
    else:
        pytest.fail("it was not refused")


@pytest.mark.parametrize("chunk", [0, 3])
def test_body_that_a_handler_does_not_read_ends_the_connection(served, handlers, chunk):
    client = served.client(served({"/early": handlers("hello", pieces=True)}))
    client.send(request("POST", "/early", b"GET / HTTP/1.1\r\n\r\n", chunk=chunk))
    status, headers, body = client.response()
    assert (status, headers["connection"], body) == (200, "close", b"Hello, World!")
    assert client.at_end()


def test_as_many_bytes_as_the_limit_are_read_away_and_no_more(stepped, handlers):
    server = stepped({"/early": handlers("hello", pieces=True)}, linger_bytes=100_000, body_rate=0)
    server.send(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
    assert server.received()[1]  # its half is closed
    for data, left in ((bytes(60_000), 1), (bytes(40_000), 1), (b"x", 0)):
        server.send(data)
        server.turn(20)
        assert server.threads.connections == left


def test_response_in_pieces_is_chunked(stepping):
    client = stepping.client(stepping())
    for size in (1, 1000, 100_000):
        status, headers, body = client.get(f"/steps?12&size={size}")
        assert status == 200 and headers["transfer-encoding"] == "chunked" and headers["x-steps"] == "yes"
        assert body == b"".join(b"%d" % (i % 10) * size for i in range(12, 0, -1))
    assert client.get("/hello")[2] == b"Hello, World!"


def test_response_in_pieces_of_a_known_length(stepping):
    client = stepping.client(stepping())
    _, headers, body = client.get("/steps?5&size=10&length=50")
    assert headers["content-length"] == "50" and "transfer-encoding" not in headers and len(body) == 50
    client.send(b"HEAD /steps?5&size=10&length=50 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.response(head_only=True)[1]["content-length"] == "50"
    client.send(b"HEAD /steps?5&size=10 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert "content-length" not in client.response(head_only=True)[1]
    assert client.get("/hello")[2] == b"Hello, World!"


def test_response_in_pieces_ends_with_the_connection_in_http_1_0(stepping):
    client = stepping.client(stepping())
    client.send(b"GET /steps?3&size=2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    while client._more():
        pass
    head, _, body = client.buffer.partition(b"\r\n\r\n")
    assert b"chunked" not in head and b"Connection: close" in head and body == b"332211"


def test_pieces_come_over_time(turned):
    server = turned()
    server.send(
        b"GET /steps?3&size=1&wait=60 HTTP/1.1\r\nHost: a\r\n\r\nGET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    first, _ = server.received()
    assert first.endswith(b"\r\n\r\n1\r\n3\r\n")
    server.turn(3)
    assert server.received() == (b"", False)  # not before its time
    rest = b""
    for _ in range(100):
        server.threads.turn(0, 0.1)
        rest += server.received()[0]
        if rest.endswith(b"Hello, World!"):
            break
    assert rest.startswith(b"1\r\n2\r\n1\r\n1\r\n0\r\n\r\nHTTP/1.1 200 OK")


def test_waits_of_many_connections_end_in_their_order(stepping):
    server = stepping(native_threads=1)
    ended = []

    def ask(milliseconds):
        assert stepping.client(server).get(f"/steps?1&size=1&wait={milliseconds}")[2] == b"1"
        ended.append(milliseconds)

    waits = [600, 10, 300, 10, 900]
    asking = [syncless.spawn(ask, wait) for wait in waits]
    for each in asking:
        each.join()
    assert ended == sorted(waits)


def test_short_waits_end_before_a_long_one(turned):
    """Two that end in the same turn, again and again."""
    server = turned()
    long, short = server.client, []
    server.send(b"GET /steps?2&size=1&wait=1500 HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(2):
        server.connect()
        short.append(server.client)
    for client in short:
        client.sendall(b"GET /steps?10&size=1&wait=20 HTTP/1.1\r\nHost: a\r\n\r\n")
    told = dict.fromkeys(short, b"")
    while not all(data.endswith(b"0\r\n\r\n") for data in told.values()):
        server.threads.turn(0, 5.0)  # up to the next event or end of a wait, as a thread does
        for server.client in short:
            told[server.client] += server.received()[0]
    server.client = long
    assert server.received()[0].endswith(b"1\r\n2\r\n")
    for client in short:
        client.close()


def test_waits_of_any_length_end_in_their_order_though_others_are_given_up(turned):
    choose = random.Random(3)
    server = turned()
    server.client.close()
    waits, given_up = {}, []
    for number in range(150):
        server.connect()
        waits[server.client] = choose.randrange(20, 400)
        given_up += [server.client] if number % 3 == 0 else []
    for client, wait in waits.items():
        client.sendall(b"GET /steps?1&size=1&wait=%d HTTP/1.1\r\nHost: a\r\n\r\n" % wait)
    server.turn()  # all begin now
    for client in given_up:
        client.close()
        del waits[client]
    ended = []
    while waits:
        server.threads.turn(0, 5.0)
        now = []
        for server.client in list(waits):
            if server.received()[0].endswith(b"0\r\n\r\n"):
                now.append(waits.pop(server.client))
                server.client.close()
        ended += sorted(now)
    assert ended == sorted(ended) and len(ended) == 100


def test_slow_reader_holds_up_the_steps(turned):
    server = turned()
    server.send(b"GET /steps?500&size=20000&length=10000000 HTTP/1.1\r\nHost: a\r\n\r\n")
    server.turn(20)
    assert server.threads.figures()["sent_bytes"] < 2_000_000
    data = b""
    for _ in range(5000):
        data += server.received()[0]
        server.turn()
        if data.endswith(b"1" * 20000):
            break
    assert len(data.partition(b"\r\n\r\n")[2]) == 10_000_000


def test_end_of_a_response_waits_for_the_last_piece(stepped, handlers):
    """The client reads between the piece, which does not fit into the socket, and the end behind it."""
    reader = os.open(os.devnull, os.O_RDONLY)
    server = stepped({"/last": handlers("last", context=reader)})
    os.dup2(server.client.fileno(), reader)
    server.send(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
    data = b""
    for _ in range(500):
        data += server.received()[0]
        server.turn()
    os.close(reader)
    assert data.endswith(b"xx\r\n0\r\n\r\n") and data.count(b"\r\n") == 3


@pytest.mark.parametrize("query", ["3&size=5&failing=1", "3&size=5&length=100", "3&size=5&length=7"])
def test_response_that_fails_in_its_midst_is_cut_off(stepping, query):
    server = stepping()
    client = stepping.client(server)
    client.send(b"GET /steps?%s HTTP/1.1\r\nHost: a\r\n\r\n" % query.encode())
    answer = client.response()
    assert answer is None or answer[2] is None
    assert stepping.client(server).get("/hello")[2] == b"Hello, World!"


def test_state_is_released_however_the_request_ends(turned):
    server = turned()
    released = lambda: ask(server, "/released")  # noqa: E731
    before = released()
    server.send(request("POST", "/sum", b"abc"))
    server.turn()
    server.received()
    assert released() == before + 1
    for data in (
        b"POST /sum HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
        b"GET /steps?100&size=1&wait=60000 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /steps?100000&size=10000 HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        server.send(data)
        server.client.close()
        server.turn(5)
        server.connect()
        before += 1
        assert released() == before + 1, data


def ask(server, path):
    server.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    return int(server.received()[0].rpartition(b"\r\n")[2])


def test_stopping_server_lets_steps_end(stepping):
    server = stepping()
    client, endless = stepping.client(server), stepping.client(server)
    client.send(b"GET /steps?10&size=1&wait=50 HTTP/1.1\r\nHost: a\r\n\r\n")
    endless.send(b"GET /steps?100000&size=1&wait=50 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.lanes[0].figures()["accepted"] == 2)
    assert eventually(lambda: server.lanes[0].figures()["sent_bytes"] > 200)
    stopping = syncless.spawn(server.stop, 2)
    assert client.response()[2] == b"0987654321"
    assert client.at_end()
    stopping.join()
    assert server.census().get("native connections", 0) == 0
