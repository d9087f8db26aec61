"""More clients, requests and bytes than the server has room for; requests that take too long; clients that
leave."""

import gc
import io
import re
import resource
import struct
import tracemalloc

import pytest

import syncless
from syncless.io import socket
from syncless.wsgi import ClientGone, RequestTimeout, client_gone, current_request, while_client_stays
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def hello(environ, start_response):
    start_response("200 OK", [])
    return [b"hello"]


# -- connections -----------------------------------------------------------------------------------


def test_the_oldest_idle_connection_makes_room(start):
    server = start(hello, connections=3)
    clients = [start.client(server) for _ in range(3)]
    for client in clients:
        assert client.get()[2] == b"hello"
    clients[0].get()  # now the second one is the oldest
    assert start.client(server).get()[2] == b"hello"
    assert clients[1].at_end() and server.census()["connections"] == 3
    assert clients[0].get()[2] == clients[2].get()[2] == b"hello"


def test_a_silent_connection_makes_room_too(start):
    server = start(hello, connections=1, defer_accept=False)
    silent = start.client(server)
    assert eventually(lambda: server.census()["connections"] == 1)
    assert start.client(server).get()[2] == b"hello"
    assert silent.at_end()


def test_busy_connections_are_not_closed_to_make_room(start):
    go_on = syncless.Event()

    def app(environ, start_response):
        if environ["PATH_INFO"] == "/wait":
            go_on.wait()
        return hello(environ, start_response)

    server = start(app, connections=2)
    busy = [start.client(server) for _ in range(2)]
    for client in busy:
        client.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    assert eventually(lambda: server.census()["active"] == 2)
    late = start.client(server)
    late.send(GET)
    syncless.sleep(0.05)
    assert server.census()["connections"] == 2
    go_on.set()
    assert [client.response()[2] for client in (*busy, late)] == [b"hello"] * 3


# -- requests --------------------------------------------------------------------------------------


def test_too_many_requests_are_queued_and_then_refused(start):
    """Two run, two wait, the fifth is told to come back; those that wait get their turn in order."""
    go_on = syncless.Event()
    begun = []

    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        go_on.wait()
        return hello(environ, start_response)

    server = start(app, requests=2, queued=2, retry_seconds=7)
    clients = [start.client(server) for _ in range(5)]
    for number, client in enumerate(clients):
        client.send(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
        syncless.sleep(0.01)
    status, headers, body = clients[4].response()
    assert status == 503 and headers["retry-after"] == "7" and b"Too many" in body and clients[4].at_end()
    census = server.census()
    assert (census["active"], census["queued"]) == (2, 2) and begun == ["/0", "/1"]
    go_on.set()
    assert [client.response()[0] for client in clients[:4]] == [200] * 4
    assert begun == ["/0", "/1", "/2", "/3"] and server.census()["active"] == 0


def test_a_refused_head_request_has_no_body(start):
    server = start(
        lambda environ, start_response: syncless.sleep(0.1) or hello(environ, start_response),
        requests=1,
        queued=0,
    )
    first, second = start.client(server), start.client(server)
    first.send(GET)
    syncless.sleep(0.01)
    second.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    status, headers, _ = second.response(head_only=True)
    assert status == 503 and int(headers["content-length"]) > 0 and second.at_end()
    assert first.response()[0] == 200


def test_at_most_the_limit_of_requests_runs(start):
    running = most = 0

    def app(environ, start_response):
        nonlocal running, most
        running += 1
        most = max(most, running)
        syncless.sleep(0.001)
        running -= 1
        return hello(environ, start_response)

    server = start(app, requests=3, queued=100)
    clients = [start.client(server) for _ in range(20)]

    def many(client):
        return [client.get()[0] for _ in range(10)]

    tasklets = [syncless.spawn(many, client) for client in clients]
    assert [tasklet.result() for tasklet in tasklets] == [[200] * 10] * 20
    assert most == 3


def test_waiting_in_the_queue_has_an_end(start):
    go_on = syncless.Event()
    server = start(
        lambda environ, start_response: go_on.wait() and hello(environ, start_response),
        requests=1,
        queue_seconds=0.05,
    )
    first, second = start.client(server), start.client(server)
    first.send(GET)
    syncless.sleep(0.01)
    second.send(GET)
    assert second.response()[0] == 503
    go_on.set()
    assert first.response()[0] == 200
    assert second.at_end()


def test_pipelined_requests_in_the_queue(start):
    server = start(
        lambda environ, start_response: syncless.sleep(0.005) or hello(environ, start_response), requests=1
    )
    clients = [start.client(server) for _ in range(4)]
    for client in clients:
        client.send(GET * 5)
    for client in clients:
        assert [client.response()[2] for _ in range(5)] == [b"hello"] * 5


@pytest.mark.parametrize("reset", [False, True])
def test_clients_that_leave_the_queue_pass_their_turn_on(start, reset):
    """Their turn goes to the next; nothing is left behind (the fixture counts)."""
    go_on = syncless.Event()
    server = start(
        lambda environ, start_response: go_on.wait() and hello(environ, start_response), requests=1
    )
    clients = [start.client(server) for _ in range(4)]
    for client in clients:
        client.send(GET)
        syncless.sleep(0.01)
    for client in clients[1:3]:
        if reset:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    go_on.set()
    assert clients[0].response()[2] == clients[3].response()[2] == b"hello"


def test_stopping_with_a_queue(start):
    server = start(
        lambda environ, start_response: syncless.sleep(0.03) or hello(environ, start_response), requests=1
    )
    clients = [start.client(server) for _ in range(3)]
    for client in clients:
        client.send(GET)
    syncless.sleep(0.01)
    server.stop()
    assert [client.response()[0] for client in clients] == [200] * 3


def test_stopping_at_once_with_a_queue(start):
    server = start(
        lambda environ, start_response: syncless.sleep(5) or hello(environ, start_response), requests=1
    )
    clients = [start.client(server) for _ in range(3)]
    for client in clients:
        client.send(GET)
    syncless.sleep(0.02)
    server.stop(0)
    answers = [client.response() for client in clients]
    assert answers[0][0] == 503 and answers[1:] == [None, None]


# -- memory ----------------------------------------------------------------------------------------


def test_half_sent_heads_cost_little(start):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = min(2000, (soft - 200) // 2)
    server = start(hello, defer_accept=False)
    clients = [socket.create_connection(server.address) for _ in range(number)]
    assert eventually(lambda: server.census()["connections"] == number)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for client in clients:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: half of a")
    assert eventually(lambda: server.census()["buffers"] == number)
    each = (tracemalloc.get_traced_memory()[0] - before) / number
    tracemalloc.stop()
    assert each < 100 and server.census()["buffered bytes"] < 60 * number
    for client in clients:
        client.close()


def test_buffers_of_all_connections_together_are_bounded(start):
    """The oldest half-sent heads make room."""
    server = start(hello, buffered_bytes=100_000, defer_accept=False)
    clients = [start.client(server) for _ in range(20)]
    half = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 10_000
    for client in clients:
        client.send(half)
        syncless.sleep(0.001)
        assert server.census()["buffered bytes"] <= 100_000
    left = server.census()["connections"]
    assert 4 <= left <= 10
    assert clients[0].at_end()
    clients[-1].send(b"\r\n\r\n")
    assert clients[-1].response()[2] == b"hello"


def test_heads_that_come_in_pieces_between_others_leave_no_room_behind(start):
    """A connection that always holds half a request does not grow."""
    server = start(hello)
    client = start.client(server)
    data = GET * 3000
    cut = 1000
    for i in range(0, len(data), cut):
        client.send(data[i : i + cut])
        if i % 10 == 0:
            syncless.sleep(0)
        assert server.census()["buffered bytes"] < 300_000
    for _ in range(3000):
        assert client.response()[2] == b"hello"


# -- bodies ----------------------------------------------------------------------------------------


def echo(environ, start_response):
    body = environ["wsgi.input"].read()
    start_response("200 OK", [])
    return [body]


def drip(client, data, seconds):
    for i in range(len(data)):
        try:
            client.send(data[i : i + 1])
        except OSError:
            return
        syncless.sleep(seconds)


@pytest.mark.parametrize(
    ("limits", "cut"),
    [
        ({"body_rate": 1000, "body_grace_seconds": 0.05}, True),  # about 200 bytes per second come
        ({"body_rate": 1, "body_grace_seconds": 0.05}, False),
        ({"body_rate": 1000, "body_grace_seconds": 50}, False),
        ({"body_rate": 0}, False),
        ({"body_total_seconds": 0.1}, True),
        ({"body_total_seconds": 0}, False),
    ],
)
def test_dripping_bodies_end_at_their_deadline(start, limits, cut):
    client = start.client(start(echo, **limits))
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n")
    dripping = syncless.spawn(drip, client, b"x" * 60, 0.005)
    status, _, body = client.response()
    assert (status, body) == (200, b"x" * 60) or cut
    assert (status == 408) is cut
    dripping.join()


def test_the_data_rate_counts_only_while_the_application_waits(start):
    all_sent = syncless.Event()

    def app(environ, start_response):
        all_sent.wait()
        return echo(environ, start_response)

    client = start.client(start(app, body_rate=1000, body_grace_seconds=0.05))
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
    syncless.sleep(0.15)
    client.send(b"def")
    all_sent.set()
    assert client.response()[2] == b"abcdef"


# -- requests that take too long -------------------------------------------------------------------


def test_each_request_has_a_deadline(start):
    """It is raised where the request waits; code that catches it can still answer."""
    seen = []

    def app(environ, start_response):
        try:
            syncless.sleep(5)
        except Exception:
            seen.append("swallowed")
        except RequestTimeout:
            seen.append("raised")
            if environ["PATH_INFO"] == "/answers":
                return hello(environ, start_response)
            raise

    log = io.StringIO()
    server = start(app, request_seconds=0.03, error_log=log)
    assert start.client(server).get("/answers")[2] == b"hello"
    status, headers, _ = start.client(server).get("/")
    assert status == 503 and headers["retry-after"] == "1"
    assert (
        seen == ["raised", "raised"]
        and "RequestTimeout: the request took longer than 0.03 s" in log.getvalue()
    )


def test_the_deadline_in_mid_stream_aborts(start):
    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"first"
        syncless.sleep(5)

    client = start.client(start(app, request_seconds=0.03, error_log=io.StringIO()))
    assert client.get()[2] is None and client.reset


def test_an_applications_timeout_does_not_displace_the_deadline(start):
    """Nor its deadlines: all of the same length, so they ring together."""
    waits = []

    def app(environ, start_response):
        for _ in range(100):
            try:
                with syncless.Timeout(0.05, False), syncless.deadline(0.05):
                    waits.append(1)
                    syncless.sleep(5)
            except TimeoutError:
                pass
        return hello(environ, start_response)

    server = start(app, request_seconds=0.05, error_log=io.StringIO())
    for number in range(1, 11):
        assert start.client(server).get()[0] == 503 and len(waits) <= 2 * number


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_that_a_request_does_not_live_to_raise_goes_to_the_main_tasklet(start, kind):
    def app(environ, start_response):
        me = syncless.current()
        if environ["PATH_INFO"] == "/interrupted":
            syncless.spawn(lambda: (me.kill(block=False), me.kill(kind(7), block=False)))
        else:
            syncless.spawn(me.kill, block=False)
        try:
            syncless.sleep(5)
        except syncless.TaskletExit:
            return hello(environ, start_response)

    server = start(app, error_log=io.StringIO())
    with pytest.raises(kind):
        start.client(server).get("/interrupted")
    assert start.client(server).get()[2] == b"hello"


def test_the_deadline_does_not_outlive_its_request(start):
    server = start(hello, request_seconds=0.5)
    client = start.client(server)
    assert client.get()[2] == b"hello"
    assert syncless.current_loop().census()["timers"] <= 2
    syncless.sleep(0.6)
    assert client.get()[2] == b"hello"


# -- clients that leave ----------------------------------------------------------------------------


def test_the_application_can_ask_whether_its_client_is_still_there(start):
    seen = []

    def app(environ, start_response):
        seen.append((client_gone(), environ["syncless.client_gone"]()))
        syncless.sleep(0.05)
        seen.append((client_gone(), environ["syncless.client_gone"]()))
        return hello(environ, start_response)

    server = start(app)
    for leaves in (False, True):
        client = start.client(server)
        client.send(GET + GET)  # unread bytes do not hide the end
        syncless.sleep(0.01)
        if leaves:
            client.close()
        else:
            assert client.response()[2] == b"hello"
        assert eventually(lambda: server.census()["active"] == 0)
    assert seen[:2] == [(False, False)] * 2 and seen[4] == (False, False) and seen[5] == (True, True)
    with pytest.raises(RuntimeError, match="no request runs in this tasklet"):
        client_gone()


def test_another_tasklet_can_ask_too(start):
    answers = syncless.Queue()

    def watch(request):
        while not request.client_gone:
            syncless.sleep(0.005)
        answers.put("gone")

    def app(environ, start_response):
        watching = syncless.spawn(watch, current_request())
        watching.join()
        return hello(environ, start_response)

    client = start.client(start(app))
    client.send(GET)
    syncless.sleep(0.02)
    client.close()
    assert answers.get(timeout=5) == "gone"


@pytest.mark.parametrize("when", ["before", "inside", "after"])
def test_a_request_can_be_ended_with_its_client(start, when):
    seen = []

    def app(environ, start_response):
        if when == "before":
            syncless.sleep(0.05)
        try:
            with while_client_stays():
                seen.append("inside")
                syncless.sleep(0.02 if when == "after" else 5)
        except ClientGone:
            seen.append("gone")
            raise
        syncless.sleep(0.05)
        seen.append("done")
        return hello(environ, start_response)

    server = start(app)
    client = start.client(server)
    client.send(GET)
    syncless.sleep({"before": 0.01, "inside": 0.02, "after": 0.04}[when])
    client.close()
    assert eventually(lambda: server.census()["active"] == 0)
    assert seen == {"before": ["gone"], "inside": ["inside", "gone"], "after": ["inside", "done"]}[when]


def test_reading_the_body_in_a_tasklet_that_outlives_the_request(start):
    """It is told; it gets nothing of the next request."""
    seen = []

    def read(body):
        try:
            seen.append(body.read(10))
        except ClientGone as error:
            seen.append(str(error))

    def app(environ, start_response):
        syncless.spawn(read, environ["wsgi.input"])
        syncless.sleep(0)
        return hello(environ, start_response)

    errors = []
    previous = syncless.set_error_handler(lambda where, error: errors.append(str(error)))
    try:
        client = start.client(start(app))
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
        assert client.response()[2] == b"hello"
        assert client.at_end()
    finally:
        syncless.set_error_handler(previous)
    assert len(seen) == 1 and re.search("ended|closed|no longer", seen[0]) and errors == []
