"""Event, Lock, Semaphore, Queue, Channel: waiting, order, timeouts, and what happens to those who are killed
while they wait."""

import threading

import pytest

from syncless import (
    Channel,
    Empty,
    Event,
    Full,
    Lock,
    Queue,
    Semaphore,
    TaskletExit,
    join_all,
    run_in_thread,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_event():
    event = Event()
    assert not event.is_set() and event.wait(0.001) is False
    waiters = [spawn(event.wait) for _ in range(3)]
    sleep(0)
    event.set()
    assert [waiter.result() for waiter in waiters] == [True] * 3 and event.wait()
    event.clear()
    assert repr(event) == "<Event unset>" and event.wait(0) is False


def test_event_from_another_thread_wakes_an_idle_loop():
    event = Event()
    timer = threading.Timer(0.02, event.set)
    timer.start()
    assert event.wait(10) is True
    timer.join()


def test_lock_is_fair_and_handed_over():
    lock, seen = Lock(), []

    def work(number):
        with lock:
            seen.append(number)
            sleep(0)

    join_all([spawn(work, number) for number in range(5)])
    assert seen == list(range(5)) and not lock.locked()


def test_lock_errors_and_timeouts():
    lock = Lock()
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        lock.release()
    assert lock.acquire() and lock.locked()
    assert lock.acquire(blocking=False) is False
    assert lock.acquire(timeout=0.001) is False
    with pytest.raises(ValueError):
        lock.acquire(False, 1)
    with pytest.raises(ValueError):
        lock.acquire(True, -2)
    lock.release()


def test_a_killed_waiter_leaves_the_queue():
    lock = Lock()
    lock.acquire()
    victim, next_one = spawn(lock.acquire), spawn(lock.acquire)
    sleep(0)
    victim.kill()
    lock.release()
    assert next_one.result() is True and lock.locked()


def test_a_waiter_killed_after_the_hand_over_passes_it_on():
    lock = Lock()
    lock.acquire()
    victim, next_one = spawn(lock.acquire), spawn(lock.acquire)
    sleep(0)
    lock.release()  # the victim has it now but has not run
    victim.kill(block=False)
    assert next_one.result() is True
    lock.release()
    assert not lock.locked()


def test_semaphore_bounds():
    semaphore, inside, most = Semaphore(3), [0], []

    def work():
        with semaphore:
            inside[0] += 1
            most.append(inside[0])
            sleep(0)
            inside[0] -= 1

    join_all([spawn(work) for _ in range(10)])
    assert max(most) == 3 and semaphore.value == 3
    with pytest.raises(ValueError):
        Semaphore(-1)
    with pytest.raises(ValueError):
        semaphore.release(0)


def test_queue_keeps_order_and_bound():
    queue, seen = Queue(2), []

    def producer():
        for number in range(20):
            queue.put(number)
            assert queue.qsize() <= 2
        queue.put(None)

    spawn(producer)
    while (item := queue.get()) is not None:
        seen.append(item)
    assert seen == list(range(20)) and queue.empty() and bool(queue) and len(queue) == 0


def test_queue_without_waiting():
    queue = Queue(1)
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=0.001)
    queue.put_nowait(1)
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait(2)
    with pytest.raises(Full):
        queue.put(2, timeout=0.001)
    with pytest.raises(ValueError):
        queue.put(2, timeout=-1)
    assert queue.get() == 1 and queue.qsize() == 0


def test_an_item_for_a_killed_getter_is_not_lost():
    queue = Queue()
    victim = spawn(queue.get)
    sleep(0)
    queue.put("item")  # handed to the victim, which has not run
    victim.kill(block=False)
    sleep(0)
    assert queue.get(block=False) == "item"


def test_queue_between_threads():
    queue, back = Queue(10), Queue()
    worker = spawn(run_in_thread, lambda: [back.put(queue.get() * 2) for _ in range(200)])
    spawn(lambda: [queue.put(number) for number in range(200)])
    assert [back.get() for _ in range(200)] == [2 * number for number in range(200)]
    worker.join()


def test_channel_is_a_meeting():
    channel, seen = Channel(), []

    def sender():
        for number in range(3):
            channel.send(number)
            seen.append(f"sent {number}")

    spawn(sender)
    sleep(0)
    assert channel.balance == 1 and seen == []
    assert [channel.receive() for _ in range(3)] == [0, 1, 2]
    sleep(0)
    assert channel.balance == 0 and seen == ["sent 0", "sent 1", "sent 2"]


def test_channel_timeouts_leave_no_trace():
    channel = Channel()
    with pytest.raises(TimeoutError):
        channel.send(1, timeout=0.001)
    with pytest.raises(TimeoutError):
        channel.receive(timeout=0.001)
    assert channel.balance == 0
    victim = spawn(channel.receive)
    sleep(0)
    victim.kill()
    assert channel.balance == 0


def test_channel_carries_exceptions(reports):
    channel = Channel()
    receiver = spawn(channel.receive)
    sleep(0)
    channel.send_exception(KeyError, "key")
    with pytest.raises(KeyError):
        receiver.result()
    with pytest.raises(TypeError):
        channel.send_exception("no exception")


def test_closing_a_channel_ends_iteration_and_wakes_its_waiters(reports):
    channel = Channel()
    collected = spawn(list, channel)
    for number in range(3):
        channel.send(number)
    channel.close()
    assert collected.result() == [0, 1, 2]
    with pytest.raises(ValueError, match="closed"):
        channel.send(1)
    with pytest.raises(ValueError, match="closed"):
        channel.receive()
    other = Channel()
    sender, receiver = spawn(other.send, 1), None
    sleep(0)
    other.close()
    assert isinstance(sender.exception(), ValueError) and receiver is None and other.balance == 0


def test_a_value_for_a_killed_receiver_goes_to_the_next():
    channel = Channel()
    victim, next_one = spawn(channel.receive), spawn(channel.receive)
    sleep(0)
    channel.send("value")
    victim.kill(block=False)
    assert next_one.result() == "value"
    assert isinstance(victim.exception(), TaskletExit) and channel.balance == 0


def test_waiting_tasklets_of_many_kinds_can_be_killed():
    lock = Lock()
    lock.acquire()
    full = Queue(1)
    full.put(0)
    waits = [
        Event().wait,
        lock.acquire,
        Semaphore(0).acquire,
        Queue().get,
        lambda: full.put(1),
        Channel().receive,
        lambda: Channel().send(1),
    ]
    tasklets = [spawn(wait) for wait in waits]
    sleep(0)
    assert all(tasklet.status == "waiting" for tasklet in tasklets)
    for tasklet in tasklets:
        tasklet.kill()
    assert all(tasklet.done() for tasklet in tasklets)
    assert full.get() == 0 and full.empty()
