"""Condition and Barrier, as threading has them."""

import threading

import pytest

from syncless import (
    Barrier,
    Condition,
    Lock,
    RLock,
    join_all,
    run_in_thread,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("make", [lambda: Condition(), lambda: Condition(Lock()), lambda: Condition(RLock())])
def test_condition(make):
    condition, items, got = make(), [], []

    def take():
        with condition:
            condition.wait_for(lambda: items)
            got.append(items.pop())

    takers = [spawn(take) for _ in range(3)]
    sleep(0)
    for number in range(3):
        with condition:
            items.append(number)
            condition.notify()
    join_all(takers)
    assert sorted(got) == [0, 1, 2]
    with condition:
        assert condition.wait(0.01) is False and condition.wait_for(lambda: False, 0.01) is False
        killed = spawn(take)
        sleep(0)
        condition.notify_all()
    killed.kill()
    for use in (condition.wait, condition.notify):
        with pytest.raises(RuntimeError, match="un-acquired"):
            use()
    with condition:
        pass


def test_condition_between_threads():
    condition, ready = Condition(), []

    def tell():
        with condition:
            ready.append(1)
            condition.notify_all()

    thread = threading.Thread(target=tell)
    with condition:
        thread.start()
        assert condition.wait_for(lambda: ready, 5)
    run_in_thread(thread.join)


def test_barrier(reports):
    seen = []
    barrier = Barrier(3, lambda: seen.append("action"))
    places = [spawn(barrier.wait) for _ in range(3)]
    assert sorted(each.result() for each in places) == [0, 1, 2] and seen == ["action"]
    waits = spawn(barrier.wait)
    sleep(0)
    barrier.abort()
    assert isinstance(waits.exception(), threading.BrokenBarrierError) and barrier.broken
