"""A lock that all workers share: one holder, waiters that are told, and errors of who does not hold it."""

import os

import pytest

import syncless
from syncless.shared import Counter, Lock, subscribe


def test_lock_has_one_holder_and_goes_to_who_waits():
    inside, most = [], []

    def work():
        with Lock("one"):
            inside.append(1)
            most.append(len(inside))
            syncless.sleep(0)
            inside.pop()

    syncless.join_all([syncless.spawn(work) for _ in range(50)])
    assert most == [1] * 50 and not Lock("one").locked()


def test_lock_excludes_threads():
    total = []

    def work():
        for _ in range(100):
            with Lock("one"):
                before = len(total)
                total.append(before)

    calls = [syncless.spawn(syncless.run_in_thread, work) for _ in range(4)]
    syncless.join_all(calls)
    assert total == list(range(400))


def test_lock_that_is_held_is_refused_or_waited_for():
    lock = Lock("one")
    assert lock.acquire() and lock.locked()
    assert not Lock("one").acquire(False) and not Lock("one").acquire(timeout=0)
    waiting = syncless.spawn(Lock("one").acquire)
    syncless.sleep(0)
    lock.release()
    assert waiting.result() is True and Lock("one").locked()


def test_killed_waiter_leaves_the_lock_to_others():
    lock = Lock("one")
    lock.acquire()
    waiting = [syncless.spawn(Lock("one").acquire) for _ in range(2)]
    syncless.sleep(0)
    waiting[0].kill()
    lock.release()
    assert waiting[1].result() is True


def test_release_by_who_does_not_hold_it_raises():
    lock = Lock("one")
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()
    lock.acquire()
    with pytest.raises(RuntimeError, match="not held"):
        Lock("one").release()
    pid = os.fork()
    if pid == 0:
        try:
            lock.release()
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


def test_wake_ups_of_locks_are_no_messages_of_subscribers():
    with subscribe("*") as everything:
        lock = Lock("one")
        lock.acquire()
        waiting = syncless.spawn(Lock("one").acquire)
        syncless.sleep(0)
        lock.release()
        waiting.join()
        assert everything.get(0) is None
    assert Counter("one").get() == 0
