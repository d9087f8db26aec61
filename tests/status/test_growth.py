"""Tasklets that are too many, or that nothing can wake: what the status says of them."""

from types import SimpleNamespace

import pytest

import syncless
from syncless import debug
from syncless.server.status import growth, stuck
from tests.status.seen import APP, status_when

STUCK = (
    APP.replace("app(environ", "other(environ")
    + """
def forgets():
    syncless.Event().wait()
def app(environ, start_response):
    if environ["PATH_INFO"] == "/forget":
        syncless.spawn(forgets).name = "forgotten"
    return other(environ, start_response)
"""
)


def waits_at(line):
    return SimpleNamespace(waiting_for="event", place=line)


def grown(monkeypatch, counts, others=()):
    """What is told after a look each minute at so many tasklets of one place, and at those of others."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(growth, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    monkeypatch.setattr(growth, "place_of_wait", lambda tasklet: tasklet.place)
    found = growth.Growth()
    for number, count in enumerate(counts):
        more = [waits_at("pool.py:7 in work") for _ in range(others[number] if others else 0)]
        found.look([waits_at("app.py:3 in wait") for _ in range(count)] + more)
        found.look([])  # too early
        now.seconds += growth.EVERY
    return found.growing


def test_place_where_ever_more_wait_is_told_with_how_many_have_come(monkeypatch):
    counts = [10 * number for number in range(1, 31)]
    [place] = grown(monkeypatch, counts, others=[3000 // (1 + number) for number in range(30)])
    assert place == {
        "where": "app.py:3 in wait",
        "waits_for": "event",
        "tasklets": 300,
        "grown": 290,
        "seconds": 29 * 60.0,
    }


@pytest.mark.parametrize(
    "counts",
    [
        [10 * number for number in range(11)],  # the time is too short
        list(range(30)),  # too few
        [100 + 90 * (number % 5) for number in range(60)],  # it goes up and down
        [1000] * 30 + [3000] * 30,  # it rose once
        list(range(3000, 0, -50)),
    ],
)
def test_place_is_not_told_if_traffic_goes_up_and_down(monkeypatch, counts):
    assert grown(monkeypatch, counts) == []


def test_of_very_many_tasklets_a_part_is_looked_at(monkeypatch):
    looked = []
    monkeypatch.setattr(growth, "place_of_wait", lambda tasklet: looked.append(tasklet) or tasklet.place)
    found = growth._places([waits_at("app.py:3 in wait") for _ in range(10 * growth.MOST)])
    assert len(looked) == growth.MOST and found["event", "app.py:3 in wait"] == 10 * growth.MOST


def test_place_of_a_tasklet_is_a_line_of_the_program():
    gate = syncless.Event()

    def waits():
        gate.wait()

    tasklet = syncless.spawn(waits)
    syncless.sleep(0)
    [((why, where), count)] = growth._places([tasklet]).items()
    assert why == "event" and count == 1 and where.endswith("in waits") and "test_growth.py:" in where
    gate.set()
    tasklet.join()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_stuck_tasklets_are_searched_for_when_a_reader_asks(seen, workers):
    running = seen("--workers", workers, code=STUCK)
    assert running.get("/forget")[0] == 200
    assert all(worker["stuck"] is None for worker in running.status()["workers"])
    assert running.ask("/stuck")[0] == 403  # as a page of another site could make a browser do
    assert running.ask("/stuck", **{"Syncless-Search": "yes"})[0] == 202
    status = status_when(running, lambda status: all(worker["stuck"] for worker in status["workers"]))
    found = [worker["stuck"] for worker in status["workers"]]
    if any("error" in each for each in found):
        assert all("Python 3.14" in each["error"] for each in found)
        return
    [told] = [one for each in found for one in each["tasklets"]]
    assert told["name"] == "forgotten" and told["waits_for"] == "event" and "in forgets" in told["stack"]
    assert all(each["more"] == 0 and each["seconds"] > 0 and each["at"] > 0 for each in found)
    running.ask("/stuck", **{"Syncless-Search": "yes"})  # too early
    assert [worker["stuck"] for worker in running.status()["workers"]] == found


def test_failure_of_a_search_is_told_wherever_it_comes(monkeypatch):
    def fails(*args):
        raise ValueError("no stack")

    monkeypatch.setattr(debug, "find_leaks", lambda: [syncless.current()])
    monkeypatch.setattr(debug, "describe", fails)
    search = stuck.Search(syncless.current_loop())
    search.begin()
    syncless.sleep(0)
    assert search.found["error"] == "no stack"


def test_search_looks_at_all_waits_once_for_all_that_it_shows(monkeypatch):
    looks = []
    real = stuck.Waits
    monkeypatch.setattr(stuck, "Waits", lambda: looks.append(1) or real())
    monkeypatch.setattr(debug, "Waits", lambda: looks.append(1) or real())
    monkeypatch.setattr(debug, "find_leaks", lambda: [syncless.current()] * 60)
    found = stuck._find()
    assert len(looks) == 1 and len(found["tasklets"]) == stuck.SHOWN and found["more"] == 10
