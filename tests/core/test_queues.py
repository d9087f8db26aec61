"""Queues lose no item and count right, whatever is thrown at tasklets and whatever comparing items does."""

import itertools
import random
import sys
import threading
import time

import pytest

import syncless
from syncless import JoinableQueue, PriorityQueue, TaskletExit, join_all, putting, select, sleep, spawn

pytestmark = pytest.mark.virtual_time


class Item:
    """Comparing runs Python code."""

    def __init__(self, number, while_compared=lambda: None):
        self.number = number
        self.while_compared = while_compared

    def __lt__(self, other):
        self.while_compared()
        return self.number < other.number


class Odd:
    """It cannot be compared."""


def put(queue, item):
    queue.put(item)


def put_by_select(queue, item):
    select([putting(queue, item), syncless.Event()])


BOTH = pytest.mark.parametrize("put", [put, put_by_select])


@BOTH
def test_putter_killed_after_its_item_was_let_in_has_put_it(put):
    queue = JoinableQueue(1)
    queue.put("first")
    putter = spawn(put, queue, "second")
    sleep(0)
    assert queue.get() == "first"  # which lets the second in
    putter.kill()
    assert type(putter.exception()) is TaskletExit and queue.unfinished == 2
    queue.task_done()
    assert not queue.join(0.001)
    assert queue.get() == "second"
    queue.task_done()
    assert queue.join(0.001)
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()


@BOTH
def test_putter_killed_before_its_item_was_let_in_has_not_put_it(put):
    queue = JoinableQueue(1)
    queue.put("first")
    putter = spawn(put, queue, "second")
    sleep(0)
    putter.kill()
    assert queue.get() == "first" and queue.empty() and queue.unfinished == 1


@BOTH
@pytest.mark.parametrize("waits", [False, True])
def test_item_that_cannot_be_compared_is_its_putters_error(put, waits, reports):
    queue = PriorityQueue(3)
    for number in (5, 3) if not waits else (5, 4, 3):
        queue.put(number)
    putter, other = spawn(put, queue, Odd()), spawn(put, queue, 6)
    sleep(0)
    assert [queue.get() for _ in range(2)] == ([3, 5] if not waits else [3, 4])
    assert isinstance(putter.exception(), TypeError) and other.join(5)
    assert [queue.get() for _ in range(len(queue))] == ([6] if not waits else [5, 6])
    for number in range(3):
        queue.put(number)
    assert queue.full()


def test_items_of_equal_priority_that_cannot_be_compared_are_the_putters_error():
    queue = PriorityQueue()
    queue.put((1, Odd()))
    queue.put((2, Odd()))
    with pytest.raises(TypeError):
        queue.put((2, Odd()))
    assert [queue.get()[0] for _ in range(2)] == [1, 2] and queue.empty()


def test_order_is_that_of_the_items_and_equal_ones_come_as_they_were_put():
    dice = random.Random(1)
    queue, model = PriorityQueue(), []
    for number in range(4_000):
        if dice.random() < 0.75:
            item = Item(dice.randrange(300))
            item.serial = number
            queue.put(item)
            model.append((item.number, number))
        elif model:
            got = queue.get()
            assert (got.number, got.serial) == min(model)
            model.remove((got.number, got.serial))
    assert [(item.number, item.serial) for item in (queue.get() for _ in range(len(model)))] == sorted(model)


def test_work_per_item_grows_as_the_logarithm():
    def compared(count):
        compares = []
        queue = PriorityQueue()
        for number in random.Random(2).sample(range(count), count):
            queue.put(Item(number, lambda: compares.append(None)))
        while len(queue):
            queue.get()
        return len(compares) / count

    assert compared(16_000) < 2 * compared(500)


@BOTH
def test_room_is_kept_and_getters_are_served_while_items_are_compared(put):
    queue = PriorityQueue(2)
    queue.put(Item(1))
    putter = spawn(put, queue, Item(2, lambda: sleep(0.002)))
    sleep(0)
    assert queue.full() and len(queue) == 1  # its place is taken
    with pytest.raises(syncless.Full):
        queue.put_nowait(Item(0))
    late = spawn(put, queue, Item(3))
    assert queue.get().number == 1 and queue.get().number in (2, 3) and queue.get().number in (2, 3)
    join_all([putter, late])
    assert queue.empty()


def test_killed_while_its_item_is_compared_leaves_the_room_to_others():
    queue = PriorityQueue(2)
    queue.put(Item(1))
    putter = spawn(queue.put, Item(2, lambda: sleep(1000)))
    sleep(0)
    late = spawn(queue.put, Item(3))
    sleep(0)
    putter.kill()
    assert late.join(5) and [queue.get().number for _ in range(2)] == [1, 3] and queue.empty()


def test_priority_queue_returns_item_of_a_killed_getter_first():
    queue = PriorityQueue()
    getter = spawn(queue.get)
    sleep(0)
    queue.put(5)
    queue.put(7)
    queue.put(6)
    getter.kill()
    assert [queue.get() for _ in range(3)] == [5, 6, 7]


def test_threads_share_a_priority_queue_whose_items_compare_in_python():
    """Comparing switches threads in its midst: nothing is lost or doubled, and no putter or getter is
    stuck."""
    queue = PriorityQueue(20)
    got = [[] for _ in range(3)]
    switches = itertools.cycle([time.sleep, time.sleep, sleep])
    interval = sys.getswitchinterval()

    def gets(mine):
        while (item := queue.get()).number < 1_000_000:
            mine.append(item.number)

    def puts(first):
        def some(offset):
            for number in range(first + offset, first + 600, 3):
                queue.put(Item(number, lambda: next(switches)(0)))

        join_all([spawn(some, offset) for offset in range(3)])

    sys.setswitchinterval(1e-6)
    try:
        getters = [threading.Thread(target=gets, args=(mine,)) for mine in got]
        putters = [threading.Thread(target=puts, args=(first,)) for first in (0, 600, 1200)]
        for thread in (*getters, *putters):
            thread.start()
        for thread in putters:
            syncless.run_in_thread(thread.join)
        for _ in getters:
            queue.put(Item(1_000_000))
        for thread in getters:
            syncless.run_in_thread(thread.join)
    finally:
        sys.setswitchinterval(interval)
    assert sorted(itertools.chain(*got)) == list(range(1800)) and queue.empty()
