"""Queues and semaphores of syncless.eventlet."""

import threading

import pytest

import syncless
import syncless.eventlet as eventlet
from syncless import Tasklet
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


def test_item_that_cannot_be_compared_is_not_counted():
    items = queue.PriorityQueue()
    items.put(1)
    with pytest.raises(TypeError):
        items.put("a")
    assert items.unfinished_tasks == 1
    items.task_done()
    assert eventlet.with_timeout(5, items.join) is None


@pytest.mark.parametrize("others", [0, 1])
def test_putter_of_a_rendezvous_waits_for_the_next_getter_if_the_first_is_killed(others):
    channel, put = queue.LightQueue(0), []
    killed = eventlet.spawn(channel.get)
    rest = [eventlet.spawn(channel.get) for _ in range(others)]
    eventlet.sleep(0)
    putter = eventlet.spawn(lambda: put.append(channel.put("item")))
    eventlet.spawn_n(killed.kill)  # when the item is on its way to it
    eventlet.sleep(0.001)
    if not others:
        assert not put and channel.putting() == 1
        rest = [eventlet.spawn(channel.get)]
    assert rest[0].wait() == "item"
    putter.wait()
    assert put == [None] and channel.putting() == channel.getting() == 0


def test_put_nowait_into_a_rendezvous_fails_if_its_only_getter_is_killed():
    channel = queue.LightQueue(0)
    killed = eventlet.spawn(channel.get)
    eventlet.sleep(0)
    putter = eventlet.spawn(channel.put_nowait, "item")
    eventlet.spawn_n(killed.kill)
    with pytest.raises(queue.Full):
        putter.wait()


def test_items_pass_through_the_hooks_of_a_subclass():
    class Doubling(queue.LightQueue):
        def _put(self, item):
            super()._put(item * 2)

    items = Doubling(1)
    getter = eventlet.spawn(items.get)
    eventlet.sleep(0)
    items.put(1)  # a getter waits
    assert getter.wait() == 2
    items.put(2)
    putter = eventlet.spawn(items.put, 3)
    eventlet.sleep(0)
    assert [items.get(), items.get()] == [4, 6]
    putter.wait()


def test_pool_that_is_made_smaller_than_it_is_full_admits_nobody_until_enough_have_ended():
    pool, ends = eventlet.GreenPool(3), queue.LightQueue()
    for _ in range(3):
        pool.spawn_n(ends.get)
    pool.resize(1)
    assert pool.free() == -2 and pool.sem.locked()
    fourth = eventlet.spawn(pool.spawn, pool.running)
    for running in (3, 2, 1):
        eventlet.sleep(0)
        assert not fourth.dead and pool.running() == running
        ends.put("end one")
    assert fourth.wait().wait() == 1
    pool.waitall()
    assert pool.free() == 1


def test_getter_of_an_interrupted_put_does_not_end_the_next_put():
    channel, taken = queue.LightQueue(0), []

    def take():
        taken.append(channel.get())
        eventlet.sleep(0)
        taken.append(channel.get(timeout=1))

    getter, me = eventlet.spawn(take), syncless.current()
    eventlet.sleep(0)
    other = threading.Thread(target=Tasklet.kill, args=(me, KeyError("stop"), False))
    other.start()
    other.join()
    with pytest.raises(KeyError):
        channel.put(1)  # on its way to the getter
    channel.put(2)
    getter.wait()
    assert taken == [1, 2]
