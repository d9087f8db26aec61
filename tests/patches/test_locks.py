"""The interpreter's locks under the patch, when a waiter does not live to take one."""

import pytest

from tests.programs import check


@pytest.mark.parametrize("make", ["threading.Lock", "threading.RLock"])
def test_killed_waiter_passes_the_lock_on(make):
    check(
        """
    import sys, syncless, threading
    lock, took = eval(sys.argv[1])(), []
    def wait(name):
        with lock:
            took.append(name)
    lock.acquire()
    first, second, third = (syncless.spawn(wait, name) for name in ("first", "second", "third"))
    syncless.sleep(0)
    lock.release()
    first.kill()                # its turn had come
    assert second.join(timeout=60) and third.join(timeout=60), "the lock is free, and nobody is told"
    assert took == ["second", "third"] and lock.acquire(False)
    """,
        make,
    )
