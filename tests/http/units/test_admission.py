"""http/admission: how many requests run, how many wait, and whose turn is next."""

import functools

import pytest

import syncless
from tests.waiting import eventually


@pytest.fixture
def ran():
    return []


@pytest.fixture
def waiter(units, ran):
    return lambda name, when_late=None: units.Waiter(functools.partial(ran.append, name), when_late)


def counts(turns):
    return turns.admission.active, turns.admission.queued


def test_without_a_limit_every_request_runs(units):
    turns = units.Turns(0, 0)
    assert all(turns.begin() for _ in range(1000))
    assert counts(turns) == (1000, 0)
    for _ in range(1000):
        turns.end()
    assert counts(turns) == (0, 0)


def test_request_beyond_the_limit_does_not_run_and_is_not_counted(units):
    turns = units.Turns(2, 5)
    assert [turns.begin() for _ in range(3)] == [True, True, False]
    assert counts(turns) == (2, 0)
    turns.end()
    assert turns.begin()


def test_waiters_get_their_turns_in_order(units, waiter, ran):
    turns = units.Turns(1, 5)
    turns.begin()
    waiting = [waiter(name) for name in "abc"]
    assert all(turns.queue(one) for one in waiting)
    assert counts(turns) == (1, 3)
    for done in ("a", "ab", "abc"):
        turns.end()
        assert turns.admission.active == 1  # the one whose turn it is counts already
        assert eventually(functools.partial(lambda done: "".join(ran) == done, done))
    turns.end()
    assert counts(turns) == (0, 0)


def test_at_most_the_limit_of_requests_waits(units, waiter):
    turns = units.Turns(1, 2)
    turns.begin()
    waiting = [waiter(name) for name in "abc"]
    assert [turns.queue(one) for one in waiting] == [True, True, False]
    assert counts(turns) == (1, 2)
    for one in waiting[:2]:
        turns.leave(one)
    assert counts(turns) == (1, 0)


def test_waiter_that_leaves_the_queue_is_passed_over(units, waiter, ran):
    turns = units.Turns(1, 5)
    turns.begin()
    first, second = waiter("first"), waiter("second")
    turns.queue(first)
    turns.queue(second)
    turns.leave(first)
    turns.end()
    syncless.sleep(0)
    assert ran == ["second"] and counts(turns) == (1, 0)


def test_waiter_that_leaves_at_its_turn_hands_it_over(units, waiter, ran):
    turns = units.Turns(1, 5)
    turns.begin()
    first, second = waiter("first"), waiter("second")
    turns.queue(first)
    turns.queue(second)
    turns.end()  # it is the first one's turn
    turns.leave(first)
    assert counts(turns) == (1, 0)
    turns.leave(second)
    assert counts(turns) == (0, 0)


def test_waiter_that_waits_too_long_expires_and_leaves_the_count(units, waiter, ran):
    turns = units.Turns(1, 5, seconds=0.01)
    turns.begin()
    late = waiter("late", turns.expire)
    turns.queue(late)
    assert eventually(lambda: turns.admission.queued == 0)
    turns.end()
    syncless.sleep(0)
    assert ran == [] and counts(turns) == (0, 0)
