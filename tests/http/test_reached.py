"""Limits that are reached are told in the error log, at the start and at the end of an episode."""

import io
import json
import re

import pytest

import syncless
from syncless.http.log.errorlog import write_from
from syncless.wsgi import Server
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def gate():
    return syncless.Event()


@pytest.fixture
def app(gate):
    def app(environ, start_response):
        gate.wait()
        start_response("200 OK", [])
        return [b"hello"]

    return app


def told(errors):
    """The entries so far, without their heads."""
    return re.findall(r"\[INFO\] (limit .*)", errors.getvalue())


def ask(start, server):
    client = start.client(server)
    client.send(GET)
    syncless.sleep(0.01)
    return client


def test_episode_is_told_once_at_its_start_and_once_at_its_end(start, app, gate, errors):
    server = start(app, requests=1, queued=1, error_log=errors)
    clients = [ask(start, server) for _ in range(4)]
    begun = [
        "limit requests=1 is reached: further requests wait; --limit requests changes it",
        "limit queued=1 is reached: further requests are refused; --limit queued changes it",
    ]
    assert told(errors) == begun
    syncless.sleep(8)
    clients.append(ask(start, server))  # the same episode
    syncless.sleep(8)
    assert told(errors) == [
        *begun,
        "limit requests=1 was reached for 0.0 s: 1 waited, 0 refused",
    ]
    syncless.sleep(8)
    assert told(errors)[3:] == ["limit queued=1 was reached for 8.0 s: 3 refused"]
    gate.set()
    assert [client.response()[0] for client in clients] == [200, 200, 503, 503, 503]
    server.stop()
    assert len(told(errors)) == 4


def test_stop_ends_all_episodes(start, app, gate, errors):
    server = start(app, requests=1, queue_seconds=1, error_log=errors)
    clients = [ask(start, server) for _ in range(2)]
    assert clients[1].response()[0] == 503
    gate.set()
    assert clients[0].response()[0] == 200
    server.stop()
    assert told(errors)[2:] == [
        "limit requests=1 was reached for 0.0 s: 1 waited, 0 refused",
        "limit queue_seconds=1 was reached for 0.0 s: 1 refused",
    ]


def test_limits_of_connections_are_told(start, app, gate, errors):
    gate.set()
    server = start(app, connections=2, defer_accept=False, error_log=errors)
    clients = [start.client(server) for _ in range(4)]
    assert eventually(lambda: len(told(errors)) == 1)
    assert "limit connections=2 is reached: a new connection closes one that is idle" in told(errors)[0]
    assert clients[0].at_end() and clients[1].at_end()
    server.stop()
    other = start(app, client_connections=1, defer_accept=False, error_log=errors)
    first, second = start.client(other), start.client(other)
    assert second.at_end() and first.get()[0] == 200
    assert eventually(lambda: len(told(errors)) >= 3)
    other.stop()
    ends = told(errors)[1::2]
    assert re.fullmatch(r"limit connections=2 was reached for 0.0 s: \d waits, 2 closed", ends[0])
    assert ends[1] == "limit client_connections=1 was reached for 0.0 s: 1 closed"


def test_memory_is_told(start, app, errors):
    server = start(app, buffered_bytes=1000, error_log=errors)
    client = start.client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 2000)
    assert client.at_end()
    (begun,) = told(errors)
    assert begun.startswith("limit buffered_bytes=1000 is reached: slow connections and unread streams are")


def test_requests_that_a_found_limit_refuses_are_counted(start, app, gate, errors, monkeypatch):
    monkeypatch.setattr("syncless.http.overload.START", 1)
    server = start(app, requests="auto", error_log=errors)
    clients = [ask(start, server) for _ in range(2)]
    assert clients[1].response()[0] == 503
    gate.set()
    assert clients[0].response()[0] == 200
    server.stop()
    assert told(errors) == [
        "limit requests=auto is reached: further requests wait; --limit requests changes it",
        "limit requests=auto was reached for 0.1 s: 1 waited, 1 refused",
    ]


def test_entries_have_fields_in_json(start, app, gate, errors):
    server = start(app, requests=1, error_log=errors, error_log_format="json")
    clients = [ask(start, server) for _ in range(2)]
    gate.set()
    assert [client.response()[0] for client in clients] == [200, 200]
    server.stop()
    begun, ended = map(json.loads, errors.getvalue().splitlines())
    assert (begun["level"], begun["limit"], begun["value"]) == ("INFO", "requests", 1)
    assert {name: ended[name] for name in ("limit", "seconds", "waited", "refused")} == {
        "limit": "requests", "seconds": 0.0, "waited": 1, "refused": 0,
    }  # fmt: skip


def test_server_whose_limits_are_not_reached_tells_nothing_and_sets_no_timer(start, app, gate, errors):
    gate.set()
    timers = syncless.current_loop().census()["timers"]
    server = start(app, requests=1, connections=2, error_log=errors)
    assert start.client(server).get()[0] == 200
    server.stop()
    assert errors.getvalue() == "" and syncless.current_loop().census()["timers"] <= timers


def test_quiet_server_tells_of_no_limit(app, gate, start):
    errors = io.StringIO()
    write_from("warning")
    try:
        server = start(app, requests=1, error_log=errors)
        clients = [ask(start, server) for _ in range(2)]
        gate.set()
        assert [client.response()[0] for client in clients] == [200, 200]
        server.stop()
    finally:
        write_from("debug")
    assert errors.getvalue() == ""


def test_dropped_server_leaves_no_timer(app, errors):
    server = Server(app, port=0, error_log=errors)
    del server
