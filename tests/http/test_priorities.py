"""Which requests are first where others wait: `--priority`, alone and through a server."""

import pytest

import syncless
from syncless.http import overload
from syncless.http.priorities import ALWAYS, HIGH, LOW, NORMAL, Priorities
from syncless.wsgi import Server
from tests.waiting import eventually

pytestmark = pytest.mark.virtual_time


def test_longest_prefix_gives_the_rank():
    ranks = Priorities(["/api=low", "/api/pay/=high", "/events=always"], ["/livez"])
    paths = ("/", "/api", "/api/x", "/apix", "/api/pay", "/api/pay/1", "/events", "/livez", "/livez/x")
    assert [ranks.rank(path, None) for path in paths] == [
        NORMAL, LOW, LOW, NORMAL, HIGH, HIGH, ALWAYS, ALWAYS, NORMAL,
    ]  # fmt: skip


def test_field_comes_before_the_path():
    ranks = Priorities(["/=low", "header:X-Priority"])
    assert ranks.header == "x-priority"
    assert [ranks.rank("/", value) for value in ("high", "odd", None)] == [HIGH, LOW, LOW]


def test_without_rules_there_are_no_priorities():
    assert not Priorities(()) and Priorities((), ["/livez"]) and Priorities("/=low")


@pytest.mark.parametrize("rule", ["", "/a", "a=low", "/a=urgent", "header:", "/a=LOW"])
def test_malformed_rule_is_refused(rule):
    with pytest.raises(ValueError, match=r"priority: write /PATH=always\|high\|normal\|low or header:NAME"):
        Priorities(rule)


def held(go_on, begun):
    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        go_on.wait()
        start_response("200 OK", [])
        return [b"hello"]

    return app


def alive(environ, start_response):
    start_response("200 OK", [])
    return [b"alive"]


def echo(environ, start_response):
    if "wsgi.websocket" in environ:
        return [environ["wsgi.websocket"].receive()]
    start_response("200 OK", [])
    return [b"plain"]


@pytest.fixture
def few(monkeypatch):
    """The rule begins with one request."""
    monkeypatch.setattr(overload, "START", 1)


def ask(start, server, path, fields=""):
    client = start.client(server)
    client.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n".encode())
    syncless.sleep(0.001)
    return client


@pytest.mark.parametrize("requests", [1, "auto"])
def test_higher_ranks_are_first_and_the_highest_do_not_wait(start, few, requests):
    go_on, begun = syncless.Event(), []
    rules = ["/low=low", "/high=high", "/free=always", "header:x-rank"]
    server = start(held(go_on, begun), requests=requests, priority=rules, trusted="127.0.0.1")
    clients = [ask(start, server, path) for path in ("/1", "/low", "/2", "/high", "/free")]
    clients.append(ask(start, server, "/field", "X-Rank: high\r\n"))
    assert eventually(lambda: begun == ["/1", "/free"])
    assert server.census()["active"] == 2 and server.census()["queued"] == 4
    go_on.set()
    assert [client.response()[0] for client in clients] == [200] * 6
    assert begun == ["/1", "/free", "/high", "/field", "/2", "/low"]
    assert server.census()["active"] == server.census()["queued"] == 0


def test_field_of_a_client_that_is_not_trusted_does_not_count(start):
    go_on, begun = syncless.Event(), []
    server = start(held(go_on, begun), requests=1, queued=0, priority="header:x-rank")
    first = ask(start, server, "/1")
    assert ask(start, server, "/2", "X-Rank: always\r\n").response()[0] == 503
    go_on.set()
    assert first.response()[0] == 200


def test_health_checks_on_the_main_address_do_not_wait(start):
    go_on, begun = syncless.Event(), []
    server = Server(held(go_on, begun), port=0, requests=1, queued=0)
    server.pages = {"/livez": alive}
    with server:
        first = ask(start, server, "/1")
        assert ask(start, server, "/livez").response()[2] == b"alive"
        assert ask(start, server, "/2").response()[0] == 503
        go_on.set()
        assert first.response()[0] == 200


def test_newest_is_next_when_the_queue_is_late_and_the_old_are_refused(start, few):
    """For 0.1 s they wait in order; then each may wait for 5 ms."""
    go_on, begun = syncless.Event(), []
    server = start(held(go_on, begun), requests="auto", retry_seconds=3)
    clients = [ask(start, server, f"/{number}") for number in range(3)]
    syncless.sleep(0.11)
    assert [client.response()[:2][0] for client in clients[1:]] == [503, 503]
    clients += [ask(start, server, f"/{number}") for number in (3, 4)]
    syncless.sleep(0.001)
    go_on.set()
    assert [clients[number].response()[0] for number in (0, 3, 4)] == [200] * 3
    assert begun == ["/0", "/4", "/3"]
    [figures] = [listener.figures() for listener in server.listeners]
    assert figures["requests_refused"] == 2 and figures["requests_limit"] == 1


def test_low_priority_is_refused_at_once_when_the_queue_is_late(start, few):
    go_on = syncless.Event()
    server = start(held(go_on, []), requests="auto", priority="/low=low")
    first, second = ask(start, server, "/1"), ask(start, server, "/2")
    assert second.response()[0] == 503
    high = ask(start, server, "/3")
    assert ask(start, server, "/low").response()[1]["retry-after"] == "1"
    go_on.set()
    assert [first.response()[0], high.response()[0]] == [200, 200]


def test_websocket_takes_no_place_of_a_found_limit(start, few):
    """It lasts as long as its client likes, which says nothing of the latency."""

    server = start(echo, requests="auto")
    fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    client = ask(start, server, "/ws", f"{fields}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
    assert server.listeners[0].figures()["exempt"] == 1
    assert ask(start, server, "/").response()[2] == b"plain"
    client.close()
    assert eventually(lambda: server.census()["active"] == 0, 5)
    assert server.listeners[0].figures()["exempt"] == 0


def test_wrong_limits_and_rules_are_told_at_once():
    with pytest.raises(TypeError, match='limit requests must be a number or "auto", not'):
        Server(held(None, []), requests="auot")
    with pytest.raises(TypeError, match="limit queued must be a number"):
        Server(held(None, []), queued="auto")
    with pytest.raises(ValueError, match="priority: write"):
        Server(held(None, []), priority="/a")
