"""Each request keeps what it has waited for, where, and for how long."""

import asyncio
import functools
import gc
import time
import types
import weakref

import pytest

import syncless
from syncless._core.recorder import recorded
from syncless._core.waits import Wait, longest
from syncless.io import socket

pytestmark = pytest.mark.virtual_time


def answer(start_response, body=b"ok"):
    start_response("200 OK", [])
    return [body]


@pytest.fixture
def waits_of(start):
    """The waits of a request to an application that calls the functions, one after the other."""

    def ask(*functions, requests=1, **options):
        told = []

        def app(environ, start_response):
            for function in functions:
                function()
            if (kept := recorded(syncless.current())) is not None:
                told.append((kept.kept(), kept.number, kept.waited_seconds, kept.queued_seconds))
            return answer(start_response)

        client = start.client(start(app, **options))
        for _ in range(requests):
            assert client.get("/")[2] == b"ok"
        return told

    return ask


def pause():
    syncless.sleep(0.5)


def line_of(function):
    return function.__code__.co_firstlineno + 1


def test_wait_is_kept_with_its_line_and_length(waits_of):
    [([wait], number, waited, queued)] = waits_of(pause)
    assert (wait.why, wait.file, wait.line, wait.function) == ("sleep", __file__, line_of(pause), "pause")
    assert (wait.seconds, waited, queued) == pytest.approx((0.5, 0.5, 0), abs=1e-3) and number == 1
    assert str(wait) == f"sleep at tests/http/test_waits.py:{line_of(pause)} in pause()"


def test_line_is_the_programs_and_not_that_of_a_library(waits_of):
    def wait_in_library():
        syncless.Event().wait(0.25)

    def wait_by_library():
        syncless.wait([syncless.spawn(syncless.sleep, 0.25)])

    [(waits, *_)] = waits_of(wait_in_library, wait_by_library)
    assert [(wait.file, wait.function) for wait in waits] == [
        (__file__, "wait_in_library"),
        (__file__, "wait_by_library"),
    ]


def test_socket_is_named_by_its_peer(waits_of):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
        address = "{}:{}".format(*listening.getsockname())

        def ask():
            syncless.spawn(lambda: (syncless.sleep(0.1), server.sendall(b"x")))
            client.recv(1)

        with client, server:
            [([wait], *_)] = waits_of(ask)
    assert wait.what == f"socket read: {address}" and wait.seconds == pytest.approx(0.1, abs=1e-3)


DRIVER = """
import syncless
def execute(sql):
    syncless.sleep(0.1)
async def fetch(query, *values):
    import asyncio
    await asyncio.sleep(5)
"""


@pytest.fixture
def driver():
    """An installed module that asks a database."""
    space = {}
    exec(compile(DRIVER, "/env/site-packages/driver.py", "exec"), space)
    return types.SimpleNamespace(**space)


@pytest.mark.parametrize(
    ("sql", "shown"),
    [("SELECT 5", ": SELECT 5"), ("SELECT\n    5", ": SELECT 5"), (b"SELECT 5", ""), ("", "")],
)
def test_wait_of_a_driver_names_its_query(waits_of, driver, sql, shown):
    def ask():
        driver.execute(sql)

    [([wait], *_)] = waits_of(ask)
    assert wait.what == f"sleep{shown}" and wait.function == "ask"


def test_a_program_is_not_searched_for_queries(waits_of):
    def execute(sql="my own"):
        syncless.sleep(0.1)

    [([wait], *_)] = waits_of(execute)
    assert wait.what == "sleep"


def test_long_query_is_cut():
    wait = Wait("socket read", "", "", 0, "", 0.0, 0.98, f"SELECT {'5' * 500}")
    assert wait.what == f"socket read: SELECT {'5' * 193}..."


def test_queries_of_one_line_are_one_row():
    waits = [
        Wait("socket read", "10.0.0.5:5432", "shop/orders.py", 41, "pay", n, seconds, f"SELECT {n}")
        for n, seconds in enumerate((0.25, 0.5, 0.125))
    ]
    [(row, number)] = longest(waits)
    assert (row.seconds, row.query, number) == (0.875, "SELECT 1", 3)


@pytest.mark.parametrize(("port", "service"), [(5432, "PostgreSQL "), (6379, "Redis "), (9999, "")])
def test_known_port_is_named_by_its_service(port, service):
    wait = Wait("socket read", f"10.0.0.5:{port}", "shop/orders.py", 41, "pay", 0.0, 0.98)
    assert str(wait) == f"socket read: {service}10.0.0.5:{port} at shop/orders.py:41 in pay()"


def test_time_in_the_ready_queue_is_told_apart(waits_of):
    """The loop is held when the wait is over."""

    def wait():
        syncless.spawn(time.sleep, 0.3)
        syncless.sleep(0.1)

    [([kept], _, waited, queued)] = waits_of(wait)
    assert (kept.seconds, waited, queued) == pytest.approx((0.1, 0.1, 0.2), abs=1e-3)


def test_longest_waits_are_kept_of_many(waits_of):
    def many():
        for number in range(300):
            syncless.sleep(0.3 if number == 7 else 0.001 * (1 + number % 50))

    [(waits, number, *_)] = waits_of(many)
    lengths = sorted((round(wait.seconds * 1000) for wait in waits), reverse=True)
    assert number == 300 and len(waits) == 64
    assert lengths == sorted((300 if n == 7 else 1 + n % 50 for n in range(300)), reverse=True)[:64]
    assert [wait.since for wait in waits] == sorted(wait.since for wait in waits)


@pytest.mark.parametrize("most", [1, 3, 4, 5])
def test_as_many_waits_are_kept_as_the_limit_says(waits_of, most):
    lengths = [0.3, 0.1, 0.5, 0.2, 0.4, 0.6, 0.15]
    pauses = [functools.partial(syncless.sleep, length) for length in lengths]
    for waits, number, waited, _ in waits_of(*pauses, requests=2, recorded_waits=most):
        kept = [wait.seconds for wait in waits]
        longest_first = sorted(lengths, reverse=True)[:most]
        assert kept == pytest.approx([length for length in lengths if length in longest_first], abs=1e-3)
        assert number == 7 and waited == pytest.approx(sum(lengths), abs=1e-2)


def test_no_wait_is_recorded_where_the_limit_is_zero(waits_of, start):
    assert waits_of(pause, requests=2, recorded_waits=0) == []

    def late(environ, start_response):
        syncless.sleep(9)

    server = start(late, request_seconds=0.5, recorded_waits=0)
    assert start.client(server).get("/")[0] == 503


def test_next_request_of_the_connection_begins_anew(waits_of):
    told = waits_of(pause, requests=3)
    assert [number for _, number, *_ in told] == [1, 1, 1]


def test_lines_of_quick_waits_are_not_looked_up_before_they_add_up(waits_of):
    def quick():
        for _ in range(30):
            syncless.sleep(0.001)

    [(waits, *_)] = waits_of(quick)
    assert [bool(wait.file) for wait in waits] == [False] * 19 + [True] * 11


def test_wait_that_ends_by_an_exception_is_kept(waits_of):
    def late():
        with pytest.raises(TimeoutError), syncless.deadline(0.2):
            syncless.sleep(5)

    [([wait], *_)] = waits_of(late)
    assert wait.seconds == pytest.approx(0.2, abs=1e-3) and wait.function == "late"


def test_code_of_an_old_request_is_not_kept_alive(waits_of):
    space = {}
    exec("import syncless\ndef wait():\n    syncless.sleep(0.1)\n", space)
    code = weakref.ref(space["wait"].__code__)
    calls = [space["wait"]]
    del space
    waits_of(lambda: calls.pop()() if calls else None, requests=2)
    gc.collect()
    assert code() is None


def test_late_request_of_asgi_shows_where_its_coroutine_stood(background, start, errors):
    async def pay():
        await asyncio.sleep(5)

    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await asyncio.wait_for(pay(), None)

    server = start(app, request_seconds=0.5, slow_request=0.1, error_log=errors)
    assert start.client(server).get("/")[0] == 503
    assert f"at tests/http/test_waits.py:{line_of(pay)} in pay()" in errors.getvalue(), errors.getvalue()


def test_late_coroutine_of_a_driver_names_its_query(background, start, errors, driver):
    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await driver.fetch("SELECT 5", 7)

    server = start(app, request_seconds=0.5, slow_request=0.1, error_log=errors)
    assert start.client(server).get("/")[0] == 503
    assert ": SELECT 5 at tests/http/test_waits.py:" in errors.getvalue(), errors.getvalue()


def test_tasklet_that_is_no_request_records_nothing():
    assert recorded(syncless.current()) is None
