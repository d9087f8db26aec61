"""The longest waits of a request are spans below its own, named by the semantic conventions."""

import functools

import pytest

import syncless
from syncless._core.waits import Wait
from syncless.io import socket
from syncless.patches import patched
from syncless.server.otel.waits import LEAST, MOST, parts

SERVER, CLIENT, INTERNAL = 2, 3, 1
GET = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"


def wait(seconds=0.5, why="socket read", on="", query="", since=1.0):
    return Wait(why, on, "shop/orders.py", 41, "customer_of", since, seconds, query)


def described(one):
    [part] = parts([one])
    kept = {name for name in part.attributes if not name.startswith(("code.", "syncless.wait"))}
    return part.name, part.is_client, {name: part.attributes[name] for name in kept}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            wait(on="10.0.0.5:5432", query="  select name\nFROM customers WHERE id = %s"),
            (
                "SELECT 10.0.0.5:5432",
                True,
                {
                    "db.system.name": "postgresql",
                    "db.operation.name": "SELECT",
                    "db.query.text": "  select name\nFROM customers WHERE id = %s",
                    "server.address": "10.0.0.5",
                    "server.port": 5432,
                },
            ),
        ),
        (
            wait(on="[::1]:6379"),
            ("::1:6379", True, {"db.system.name": "redis", "server.address": "::1", "server.port": 6379}),
        ),
        (
            wait(on="/run/mysqld/mysqld.sock", query="(SELECT 1)"),
            (
                "/run/mysqld/mysqld.sock",
                True,
                {
                    "db.system.name": "other_sql",
                    "db.query.text": "(SELECT 1)",
                    "server.address": "/run/mysqld/mysqld.sock",
                },
            ),
        ),
        (wait(query=" "), ("query", True, {"db.system.name": "other_sql", "db.query.text": " "})),
        (
            wait(on="10.0.0.9:8080"),
            ("socket read 10.0.0.9:8080", True, {"server.address": "10.0.0.9", "server.port": 8080}),
        ),
        (
            wait(on="DNS name db.example"),
            ("DNS lookup", True, {"dns.question.name": "db.example"}),
        ),
        (
            wait(why="lock", on="held by GET /report"),
            ("lock", False, {"syncless.lock.holder": "GET /report"}),
        ),
        (wait(why="sleep"), ("sleep", False, {})),
        (wait(why="end of a tasklet", on="worker:80"), ("end of a tasklet", False, {})),
        (wait(on="no peer: none"), ("socket read", False, {})),
    ],
)
def test_wait_is_described_by_the_conventions(given, told):
    assert described(given) == told


def test_longest_waits_are_told_in_the_order_of_time():
    waits = [wait(seconds=0.01 * (number % 20 + 1), since=float(number)) for number in range(40)]
    found = list(parts(waits))
    assert len(found) == MOST and [part.since for part in found] == sorted(part.since for part in found)
    assert min(part.seconds for part in found) == pytest.approx(0.16)
    assert list(parts([wait(seconds=LEAST / 2)])) == []


def test_wait_is_a_child_of_its_request_at_its_time_and_line(asked):
    def app(environ, start_response):
        syncless.sleep(0.03)
        syncless.sleep(0.02)
        start_response("200 OK", [])
        return []

    request, *waits = asked(app, GET)
    assert (request.kind, [each.kind for each in waits]) == (SERVER, [INTERNAL, INTERNAL])
    first, second = waits
    assert all((each.name, each.parent, each.trace) == ("sleep", request.id, request.trace) for each in waits)
    assert len({request.id, first.id, second.id}) == 3
    # the clock of the day may be set meanwhile
    assert abs((first.end - first.start) - 30e6) < 60e9 and first.end <= second.start
    assert request.start - 2e6 <= first.start and second.end <= request.end + 2e6
    assert first.attributes["code.file.path"] == __file__ and first.attributes["code.function.name"] == "app"
    line = app.__code__.co_firstlineno
    assert [each.attributes["code.line.number"] for each in waits] == [line + 1, line + 2]


def answer(waiting):
    """What psycopg's functions do of which it calls wait()."""
    yield waiting.WAIT_R


@pytest.mark.parametrize("by_psycopg", [False, True])
def test_query_of_a_driver_is_told_with_its_database(asked, by_psycopg):
    """What calls execute() is a driver if it is an installed one, as its file says."""
    source = "def execute(sql):\n    wait()\n    return connection.recv(1)\n"
    namespace = {"wait": lambda: None}
    waiting = pytest.importorskip("psycopg.waiting") if by_psycopg else None
    exec(compile(source, "/usr/lib/python3/dist-packages/driver.py", "exec"), namespace)

    def app(environ, start_response):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            ours = socket.create_connection(listening.getsockname())
            theirs, _ = listening.accept()
            answering = syncless.spawn(lambda: (syncless.sleep(0.05), theirs.sendall(b"x")))
            namespace["connection"] = ours
            if by_psycopg:
                namespace["wait"] = functools.partial(waiting.wait, answer(waiting), ours.fileno(), 1.0)
            namespace["execute"]("SELECT name FROM customers WHERE id = %s")
            answering.join()
            ours.close()
            theirs.close()
        start_response("200 OK", [])
        return []

    with patched(thread=False):
        spans = asked(app, GET)
    [query] = [span for span in spans if "db.query.text" in span.attributes]
    assert query.name.startswith("SELECT 127.0.0.1:") and query.kind == CLIENT
    assert query.attributes["db.query.text"] == "SELECT name FROM customers WHERE id = %s"
    assert query.attributes["server.address"] == "127.0.0.1"


def test_request_without_the_record_of_waits_has_its_span(asked):
    def app(environ, start_response):
        syncless.sleep(0.001)
        start_response("200 OK", [])
        return []

    assert len(asked(app, GET, recorded_waits=0)) == 1
