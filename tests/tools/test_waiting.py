"""Pools over iterators that wait, callbacks that fail, and objects that cannot be waited for."""

import subprocess
import threading

import pytest

import syncless
from syncless import AsyncResult, Event, Pool, TaskletExit, iwait, join_all, sleep, spawn, wait

pytestmark = pytest.mark.virtual_time


def waiting_numbers(count):
    for number in range(count):
        sleep(0.0005 if number % 2 else 0)
        yield number


def add(a, b):
    sleep(0)
    return a + b


@pytest.mark.parametrize("method", ["map", "imap", "imap_unordered"])
def test_pool_takes_items_from_iterators_that_wait(method):
    pool = Pool(4)
    made = getattr(pool, method)(add, waiting_numbers(30), waiting_numbers(30))
    assert sorted(made) == [2 * number for number in range(30)]
    assert method == "imap_unordered" or list(getattr(pool, method)(add, waiting_numbers(9), range(9))) == [
        2 * n for n in range(9)
    ]
    assert pool.free_count() == 4


@pytest.mark.parametrize("method", ["map", "imap"])
def test_results_are_in_order_although_the_last_is_made_first(method):
    made = [syncless.Event() for _ in range(5)]
    made[4].set()

    def work(number):
        if number < 4:
            made[number + 1].wait()
        made[number].set()
        return number

    assert list(getattr(Pool(5), method)(work, range(4))) == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["map", "imap", "imap_unordered"])
def test_error_of_an_iterator_that_waits_is_raised(method):
    def fails():
        yield from waiting_numbers(3)
        raise KeyError("from the iterator")

    pool = Pool(3)
    with pytest.raises(KeyError, match="from the iterator"):
        list(getattr(pool, method)(abs, fails()))
    assert pool.free_count() == 3


def test_results_come_while_the_iterator_waits_for_more():
    """The next item is made from the last result."""
    results = syncless.Queue()

    def items():
        item = 1
        while item < 100:
            yield item
            item = 2 * results.get()

    for result in Pool(3).imap(abs, items()):
        results.put(result)
    assert result == 64


def fails(_):
    raise KeyError("callback")


@pytest.mark.parametrize("make", [Event, AsyncResult, lambda: spawn(sleep)])
def test_callback_that_raises_leaves_the_other_callbacks_and_the_setter_alone(make, reports):
    thing, told = make(), []
    for callback in (told.append, fails, told.append):
        thing.add_done_callback(callback)
    if isinstance(thing, syncless.Tasklet):
        thing.join()
    else:
        thing.set()
    thing.add_done_callback(fails)
    thing.add_done_callback(lambda thing: told.append("late"))
    assert told[:1] == [thing] and told[-1] == "late" and len(told) >= 2
    assert [str(error) for _, error in reports] == ["'callback'"] * 2


def test_every_callback_of_an_event_is_called_before_an_interrupt_is_raised():
    event, told = Event(), []

    def interrupted(_):
        raise TaskletExit

    for callback in (interrupted, told.append):
        event.add_done_callback(callback)
    with pytest.raises(TaskletExit):
        event.set()
    assert told == [event]


@pytest.mark.parametrize(
    "wait",
    [wait, join_all, lambda objects: join_all(objects, raise_error=True), lambda each: list(iwait(each))],
)
def test_waiting_for_something_else_says_so_at_once(wait):
    process = subprocess.Popen(["true"])
    event = Event()
    with pytest.raises(TypeError, match=r"cannot wait for Popen.*spawn a tasklet"):
        wait([event, process])
    event.add_done_callback(fails)
    assert event.remove_done_callback(fails) == 1  # the others were not touched
    assert syncless.wait([spawn(process.wait)])[0].result() == 0


def test_result_that_threads_set_at_once_is_set_by_one():
    def sets(result, start, refused, number):
        start.wait()
        try:
            result.set(number)
        except RuntimeError:
            refused.append(number)

    for _ in range(50):
        result, start, refused = AsyncResult(), threading.Barrier(4), []
        threads = [
            threading.Thread(target=sets, args=(result, start, refused, number)) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 3
        assert result.get() not in refused
