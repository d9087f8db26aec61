"""A request is a tasklet like any other: observers see it, and it has a number, switches and CPU time of its
own."""

import time

import pytest

import syncless
from syncless import debug
from tests.waiting import eventually


def burn(seconds):
    """Uses that much processor time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def wait():
    """Lets another tasklet run; with none, the request might go on at once."""
    syncless.spawn(int)
    syncless.sleep(0)


def answer(start_response, body=b"ok"):
    start_response("200 OK", [])
    return [body]


@pytest.fixture
def measured():
    debug.measure_cpu()
    yield
    debug.measure_cpu(False)


def test_each_request_has_its_own_cpu_time_and_number(start, measured):
    requests = []

    def app(environ, start_response):
        me = syncless.current()
        requests.append(me)
        for _ in range(5):
            burn(0.01)
            if environ["PATH_INFO"] == "/waits":
                wait()
        return answer(start_response)

    client = start.client(start(app))
    for path in ("/waits", "/", "/waits", "/"):
        assert client.get(path)[2] == b"ok"
    assert eventually(lambda: all(request.done() for request in requests))
    assert [request.cpu_seconds for request in requests] == pytest.approx([0.05] * 4, abs=0.01)
    assert len({request.number for request in requests}) == 4
    assert sorted(request.number for request in requests) == [request.number for request in requests]
    assert [request.switches > 1 for request in requests] == [True, False, True, False]
    requests.clear()


def test_request_that_never_waits_is_counted(start, measured):
    def app(environ, start_response):
        assert syncless.current().switches == 1
        burn(0.01)
        return answer(start_response)

    measures = []
    client = start.client(start(lambda *arguments: (measures.append(syncless.current()), app(*arguments))[1]))
    assert client.get()[0] == 200
    assert eventually(measures[0].done)
    assert measures[0].cpu_seconds >= 0.01
    measures.clear()


def test_reused_request_begins_anew(start, measured):
    """The Request object of the last request is used again; nothing of that request is to be seen."""
    seen, hooks = [], []

    def app(environ, start_response):
        me = syncless.current()
        seen.append((id(me), me.number, me.parent_number, me.switches, me.cpu_seconds, me.name))
        assert not me.done()
        me.name = "a name of its own"
        me.set_switch_hook(hooks.append)
        burn(0.002)
        if environ["PATH_INFO"] == "/waits":
            wait()
        return answer(start_response)

    client = start.client(start(app))
    paths = ["/waits", "/waits", "/", "/waits", "/"]
    for path in paths:
        assert client.get(path)[2] == b"ok"
    assert len({identity for identity, *_ in seen}) < len(seen)  # or nothing is tested here
    numbers = [number for _, number, *_ in seen]
    assert numbers == sorted(set(numbers))
    assert [rest for _, _, *rest in seen] == [[0, 1, 0.0, f"GET {path}"] for path in paths]
    assert hooks.count(True) == hooks.count(False) >= 3


def test_application_may_name_its_request(start):
    names = []

    def app(environ, start_response):
        names.append(syncless.current().name)
        syncless.current().name = "slow report"
        names.append(syncless.current().name)
        return answer(start_response)

    assert start.client(start(app)).get("/report")[0] == 200
    assert names == ["GET /report", "slow report"]


def test_bytecode_watchdog_tells_of_each_request_that_spins(start):
    """Each request has a turn of its own, although the loop answers both without a switch between them."""
    seen = []

    def app(environ, start_response):
        for _ in range(int(environ["QUERY_STRING"])):
            pass
        return answer(start_response)

    client = start.client(start(app))
    turns = (5_000, 100_000, 5_000, 100_000, *[10_000] * 8)
    with debug.BytecodeWatchdog(
        50_000, lambda *told: seen.append((told[0], told[1].name, ", in app" in told[2]))
    ):
        client.send(b"".join(b"GET /?%d HTTP/1.1\r\nHost: a\r\n\r\n" % turn for turn in turns))
        assert [client.response()[0] for _ in turns] == [200] * len(turns)
    assert seen == [(50_000, "GET /", True)] * 2


def test_child_of_request_knows_its_parent(start):
    children = []

    def app(environ, start_response):
        child = syncless.spawn(int)
        children.append((child.parent_number, syncless.current().number))
        child.join()
        return answer(start_response)

    client = start.client(start(app))
    for _ in range(3):
        assert client.get()[0] == 200
    assert all(parent == number for parent, number in children) and len(set(children)) == 3
