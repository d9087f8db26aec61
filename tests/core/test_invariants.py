"""census() checks the engine's invariants of queues, lists, heap and counts in debug builds."""

import pathlib

import pytest

import syncless
from syncless import Event, current_loop, sleep, spawn
from syncless._core.loop import check, checked
from tests.units import built

PROMISES = {
    "live": "live tasklets are counted",
    "neighbours": "neighbours in a list know each other",
    "state": "a ready tasklet is in the ready queue",
    "running": "the current tasklet is running",
    "parked": "tasklets in park",
    "waits": "those that wait for one another",
    "carriers": "idle carriers",
    "timer": "no timer in the heap is earlier",
    "place": "a timer knows its place",
    "ring": "no longer than its ring",
}


@pytest.fixture(scope="module")
def break_promise(tmp_path_factory):
    source = pathlib.Path(__file__).parent / "promises.pyx"
    return built(source, tmp_path_factory.mktemp("promises")).break_promise


@pytest.fixture
def loop():
    """The loop, with a timer more and a tasklet that waits."""
    event = Event()
    waits = spawn(event.wait)
    with syncless.Timeout(60):
        sleep(0)
        yield current_loop()
    event.set()
    waits.join()


@pytest.mark.parametrize("promise", PROMISES)
def test_broken_promise_is_noticed(loop, break_promise, promise):
    check(loop)
    break_promise(loop, promise)
    try:
        with pytest.raises(AssertionError, match=PROMISES[promise]):
            check(loop)
        if checked:
            with pytest.raises(AssertionError, match=PROMISES[promise]):
                loop.census()
        else:
            loop.census()
    finally:
        break_promise(loop, promise)
    check(loop)


def test_promises_hold_while_tasklets_come_and_go(loop):
    def works(turns):
        for _ in range(turns):
            sleep(0)
            check(loop)

    tasklets = [spawn(works, turns) for turns in range(20)]
    while not all(tasklet.done() for tasklet in tasklets):
        sleep(0)
        check(loop)
