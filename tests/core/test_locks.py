"""Locks and semaphores, as threading has them."""

import pytest

from syncless import (
    BoundedSemaphore,
    RLock,
    join_all,
    sleep,
    spawn,
)

pytestmark = pytest.mark.virtual_time


def test_rlock_belongs_to_a_tasklet():
    lock = RLock()
    with lock, lock:
        assert (
            lock.acquire()
            and spawn(lock.acquire, False).result() is False
            and spawn(lock.acquire, timeout=0.01).result() is False
        )
        lock.release()
        assert "count=2" in repr(lock)
    assert spawn(lock.acquire, False).result()
    with pytest.raises(RuntimeError, match="un-acquired"):
        lock.release()


def test_rlock_is_handed_over():
    lock, seen = RLock(), []

    def work(number):
        with lock, lock:
            sleep(0)
            seen.append(number)

    join_all([spawn(work, number) for number in range(5)])
    assert seen == list(range(5))


def test_bounded_semaphore():
    semaphore = BoundedSemaphore(2)
    with semaphore:
        semaphore.acquire()
        assert not semaphore.acquire(False)
        semaphore.release()
    with pytest.raises(ValueError, match="too many"):
        semaphore.release()
