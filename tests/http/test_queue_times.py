"""How long a request has waited in a proxy: X-Request-Start in the log, in the metrics and in a limit."""

import io
import time

import pytest

import syncless
from syncless.http.listener import CELLS, Counters, totals
from syncless.http.trust import seconds_since
from syncless.wsgi import Server, current_request
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

NOW = 1_800_000_000.5
FIELDS = {"trusted": "127.0.0.1", "trusted_fields": ["x-forwarded-for", "x-request-start"]}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1800000000.250", 0.25),  # nginx: $msec
        ("t=1800000000.250", 0.25),
        ("t=1800000000", 0.5),
        ("1800000000250", 0.25),  # Heroku
        ("t=1800000000250", 0.25),
        ("t=1800000000250000", 0.25),  # HAProxy: %[date(0,us)]
        ("1799999999.5, t=1800000000.25", 0.25),  # the last proxy's
        ("1800000001", None),  # in the future
        ("1799990000", None),  # nobody waits for so long
        ("1e9", None),
        ("-1800000000", None),
        ("t=", None),
        ("", None),
        ("18000000002500000000000", None),
        ("t=1800000000.25\u0660", None),
    ],
)
def test_unit_of_a_start_is_known_by_its_size(monkeypatch, text, seconds):
    monkeypatch.setattr(time, "time", lambda: NOW)
    found = seconds_since(text)
    assert found is None if seconds is None else found == pytest.approx(seconds, abs=1e-3)


@pytest.fixture
def serve(start):
    """serve(app=None, **options) -> a Served; it is stopped at the end."""
    running = []

    def begin(app=None, **options):
        running.append(Served(start, app, **options))
        return running[-1]

    yield begin
    for served in running:
        served.client.close()
        served.server.stop()


class Served:
    """A server with counts and a log, and one of its clients."""

    def __init__(self, start, app=None, **options):
        self.cells = bytearray(CELLS * 8)
        self.lines = io.StringIO()
        options = {"access_log": self.lines, "access_log_format": "%s %Q", **FIELDS, **options}
        self.server = Server(app or self, port=0, **options)
        self.server.counters = Counters(self.cells)
        self.server.start()
        self.client = start.client(self.server)

    def __call__(self, environ, start_response):
        start_response("200 OK", [])
        return [repr(current_request().queue_seconds).encode()]

    def get(self, seconds_ago):
        return self.client.get("/", f"X-Request-Start: t={time.time() - seconds_ago:.3f}\r\n")

    def counted(self):
        return totals(memoryview(self.cells).cast("q"))

    def logged(self):
        self.client.close()
        self.server.stop()
        return [line.split() for line in self.lines.getvalue().splitlines()]


def test_time_in_a_proxy_is_logged_counted_and_known_to_the_application(serve):
    served = serve()
    assert float(served.get(7)[2]) == pytest.approx(7, abs=0.5)
    assert served.client.get()[2] == b"None"  # the next request of the connection says nothing
    counted = served.counted()
    assert sum(counted["queue_times"]) == 1 and counted["queue_seconds"] == pytest.approx(7, abs=0.5)
    first, second = served.logged()
    assert first[0] == "200" and int(first[1]) == pytest.approx(7_000_000, abs=500_000)
    assert second == ["200", "-"]


@pytest.mark.parametrize(
    "options", [{"trusted": "10.0.0.1"}, {"trusted_fields": "x-forwarded-for"}, {"trusted": ()}]
)
def test_start_that_is_not_trusted_does_not_count(serve, options):
    served = serve(**options)
    assert served.get(50)[::2] == (200, b"None")
    assert sum(served.counted()["queue_times"]) == 0
    assert served.logged() == [["200", "-"]]


def test_application_sees_the_field_of_any_peer(serve):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [environ["HTTP_X_REQUEST_START"].encode()]

    assert serve(app, trusted=()).get(0)[2].startswith(b"t=")


def test_request_that_is_too_old_is_refused_at_once(serve):
    begun = []

    def app(environ, start_response):
        begun.append(environ)
        start_response("200 OK", [])
        return []

    served = serve(app, queue_seconds=5)
    assert served.get(2)[0] == 200
    status, headers, _ = served.get(6)
    assert (status, headers["retry-after"]) == (503, "1") and served.client.at_end()
    assert len(begun) == 1 and sum(served.counted()["queue_times"]) == 2


def test_time_in_our_own_queue_counts_too(serve, start):
    go_on = syncless.Event()
    begun = []

    def app(environ, start_response):
        begun.append(current_request().queue_seconds)
        go_on.wait()
        start_response("200 OK", [])
        return []

    served = serve(app, requests=1, queue_seconds=5)
    served.client.send(f"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Start: {time.time():.3f}\r\n\r\n".encode())
    assert eventually(lambda: len(begun) == 1)
    other = start.client(served.server)
    start_of_other = time.time() - 4
    other.send(f"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Start: {start_of_other:.3f}\r\n\r\n".encode())
    assert eventually(lambda: served.server.census()["queued"] == 1)
    syncless.sleep(2)
    go_on.set()
    assert other.response()[0] == 503 and len(begun) == 1


def test_application_of_asgi_has_the_same(background, serve):
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"hello"})

    served = serve(app, queue_seconds=5)
    assert [served.get(ago)[0] for ago in (3, 6)] == [200, 503]
    assert [round(int(us) / 1e6) for _, us in served.logged()] == [3, 6]


def test_start_beside_the_field_forwarded_is_allowed(serve):
    assert float(serve(trusted_fields=["forwarded", "x-request-start"]).get(9)[2]) > 8
