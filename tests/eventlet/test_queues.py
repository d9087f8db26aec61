"""Queues and semaphores of syncless.eventlet."""

import pytest

import syncless.eventlet as eventlet
from syncless.eventlet import queue


def test_put_into_a_rendezvous_returns_when_the_item_is_taken():
    channel, order = queue.LightQueue(0), []

    def take():
        for _ in range(2):
            order.append(channel.get())

    eventlet.spawn(take)
    channel.put(1)
    order.append("put 1")
    channel.put(2)
    order.append("put 2")
    assert order == [1, "put 1", 2, "put 2"]


def test_item_of_a_getter_that_is_killed_goes_to_the_next():
    channel = queue.LightQueue()
    killed, other = eventlet.spawn(channel.get), eventlet.spawn(channel.get)
    eventlet.sleep(0)
    channel.put("item")  # is on its way to the first
    killed.kill()
    assert other.wait() == "item"
    assert channel.getting() == 0


def test_item_of_the_only_getter_that_is_killed_comes_back():
    channel = queue.LightQueue()
    killed = eventlet.spawn(channel.get)
    eventlet.sleep(0)
    channel.put("item")
    killed.kill()
    assert channel.get_nowait() == "item"


def test_put_that_times_out_leaves_nothing_behind():
    channel = queue.LightQueue(0)
    with pytest.raises(queue.Full):
        channel.put("item", timeout=0.001)
    assert channel.putting() == 0
    with pytest.raises(queue.Empty):
        channel.get_nowait()


def test_join_waits_for_task_done_of_what_a_rendezvous_gave():
    channel = queue.Queue(0)
    eventlet.spawn(channel.put, 1)
    assert channel.get() == 1
    assert channel.unfinished_tasks == 1
    channel.task_done()
    channel.join()
    with pytest.raises(ValueError):
        channel.task_done()


def test_resized_queue_takes_in_what_waits():
    channel = queue.Queue(1)
    channel.put(1)
    putter = eventlet.spawn(channel.put, 2)
    eventlet.sleep(0)
    channel.resize(2)
    putter.wait()
    assert list(channel.queue) == [1, 2]


def test_unit_of_a_killed_waiter_goes_to_the_next():
    semaphore = eventlet.Semaphore(0)
    killed, other = eventlet.spawn(semaphore.acquire), eventlet.spawn(semaphore.acquire)
    eventlet.sleep(0)
    assert semaphore.balance == -2
    semaphore.release()
    killed.kill()
    assert other.wait() is True
    assert semaphore.balance == 0


def test_priority_queue_gives_the_least_item():
    items = queue.PriorityQueue()
    for item in (3, 1, 2):
        items.put(item)
    assert [items.get() for _ in range(3)] == [1, 2, 3]
