"""A request tells the services that it calls how long they have, and they stop with it."""

import http.client
import sqlite3
import time

import pytest

import syncless
from syncless.http.trust import seconds_left
from syncless.patches import changes, outgoing, patched
from syncless.wsgi import ClientGone, RequestTimeout
from tests.waiting import eventually

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # unclosed socket
CALLED = {"trusted": "127.0.0.1", "trusted_fields": "x-request-timeout"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.5", 1.5),
        ("0", 0),
        ("0.000", 0),
        ("9, 0.25", 0.25),  # the last one's
        ("30", 30),
        ("-1", None),
        ("1e3", None),
        ("1.", None),
        ("", None),
        ("9" * 10, None),
        ("\u0661", None),
    ],
)
def test_field_is_a_number_of_seconds(text, seconds):
    assert seconds_left(text) == seconds


@pytest.fixture
def patch():
    with patched(thread=False):
        yield


def call(server):
    """As an application does that knows nothing of deadlines."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/")
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


class Service:
    """A service that does something, and how that ended, and when."""

    def __init__(self, start, name, ended, work, **options):
        self.name, self.ended, self.work = name, ended, work
        self.server = start(self, **options)
        self.told = []

    def __call__(self, environ, start_response):
        self.told.append(environ.get("HTTP_X_REQUEST_TIMEOUT"))
        try:
            result = self.work()
        except BaseException as error:
            self.ended.append((self.name, type(error), time.monotonic()))
            raise
        self.ended.append((self.name, None, time.monotonic()))
        start_response("200 OK", [])
        return [repr(result).encode()]


def chain(start, work, passes, on_hangup, ended):
    """Three services, of which each calls the next; the first has two seconds."""
    options = {"pass_deadline": passes, "on_hangup": on_hangup}
    last = Service(start, "last", ended, work, **options, **CALLED)
    middle = Service(start, "middle", ended, lambda: call(last.server), **options, **CALLED)
    first = Service(start, "first", ended, lambda: call(middle.server), **options, request_seconds=2)
    return first, middle, last


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("passes", "on_hangup", "end"),
    [
        (True, "continue", {RequestTimeout}),
        (False, "stop", {RequestTimeout, ClientGone}),
        (True, "stop", {RequestTimeout, ClientGone}),
        (False, "continue", {RequestTimeout, BrokenPipeError, None}),
    ],
)
def test_chain_of_three_services_ends_with_the_first(start, patch, passes, on_hangup, end):
    ended = []
    first, middle, last = chain(start, lambda: syncless.sleep(20), passes, on_hangup, ended)
    began = time.monotonic()
    client = start.client(first.server)
    assert client.get("/")[0] == 503
    assert eventually(lambda: len(ended) == 3)
    late = max(when for _, _, when in ended) - began
    assert {name for name, _, _ in ended} == {"first", "middle", "last"}
    assert {error for _, error, _ in ended} <= end
    if passes or on_hangup == "stop":
        assert 1.99 < late < 2.05
    else:
        assert late >= 20  # nobody has told the last one
    assert first.told == [None]
    assert [bool(told) and 1.9 < float(told) <= 2 for told in middle.told + last.told] == [passes] * 2


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_query_ends_with_the_first_deadline(start, patch, tmp_path):
    """It would go on for ever."""
    ended = []

    def query():
        database = sqlite3.connect(tmp_path / "database")
        try:
            return database.execute(ENDLESS).fetchone()
        finally:
            database.close()

    first, *_ = chain(start, query, True, "stop", ended)
    assert start.client(first.server).get("/")[0] == 503
    assert eventually(lambda: len(ended) == 3)
    assert {error for _, error, _ in ended} <= {RequestTimeout, ClientGone}


def at_most(environ, start_response):
    start_response("200 OK", [])
    left = syncless.deadline.remaining()
    return [b"-" if left is None else f"{left:.0f}".encode()]


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("field", "options", "left"),
    [
        ("40", CALLED, b"40"),
        ("40", {**CALLED, "request_seconds": 30}, b"30"),
        ("40", {**CALLED, "request_seconds": 50}, b"40"),
        ("often", {**CALLED, "request_seconds": 50}, b"50"),
        ("40", {"trusted": "127.0.0.1"}, b"-"),
        ("40", {"trusted": "10.0.0.1", "trusted_fields": "x-request-timeout"}, b"-"),
        ("40", {"trusted_fields": "x-request-timeout"}, b"-"),
    ],
)
def test_time_of_a_trusted_caller_is_a_deadline(start, field, options, left):
    client = start.client(start(at_most, **options))
    assert client.get("/", f"X-Request-Timeout: {field}\r\n")[2] == left


@pytest.mark.parametrize("on_hangup", ["continue", "stop"])
def test_request_whose_caller_has_no_time_left_does_not_begin(start, on_hangup):
    begun = []

    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        return at_most(environ, start_response)

    client = start.client(start(app, on_hangup=on_hangup, **CALLED))
    assert client.get("/", "X-Request-Timeout: 0.000\r\n")[0] == 503
    assert begun == []


@pytest.mark.virtual_time
@pytest.mark.parametrize("asgi", [False, True], ids=["wsgi", "asgi"])
def test_nearest_deadline_is_told_until_the_request_is_over(background, patch, start, asgi):
    told, over, done = [], syncless.Event(), syncless.Event()

    def called(environ, start_response):
        told.append(environ.get("HTTP_X_REQUEST_TIMEOUT"))
        start_response("200 OK", [])
        return [b""]

    server = start(called)

    def later():
        syncless.sleep(1)
        call(server)
        over.wait()
        call(server)
        done.set()

    def work():
        syncless.spawn(later)
        with syncless.deadline(5):
            call(server)
        call(server)
        syncless.sleep(2)

    def app(environ, start_response):
        work()
        start_response("200 OK", [])
        return [b""]

    async def asgi_app(scope, receive, send):
        if scope["type"] == "http":
            work()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})

    caller = start(asgi_app if asgi else app, request_seconds=40, pass_deadline=True)
    start.client(caller).get("/")
    over.set()
    done.wait()
    assert [text and round(float(text)) for text in told] == [5, 40, 39, None]


def test_last_server_may_stop_in_another_os_thread(start, patch):
    first, last = (start(at_most, pass_deadline=True) for _ in range(2))
    first.stop()
    syncless.run_in_thread(last.stop)
    assert outgoing.sources == []
    start(at_most, pass_deadline=True).stop()  # in the main thread, which may undo the change
    assert "calls" not in {change.area for change in changes()}
