"""Event, Semaphore, Lock, by which tasklets wait for one another. They work between OS threads too.

Units and locks are handed over: release() gives them to the first that waits, so nobody can barge in and
waiting is fair. A tasklet that is killed before it runs passes its own on.

The GIL makes these work between OS threads, as long as no Python code runs between the look at the state and
the entry into the wait queue: it could let another thread or a signal handler change the state.
Making the loop, at a thread's first wait, and reading the timeout may run Python code; so both come before
the look that counts.
"""

import threading

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t

from syncless._core.callbacks cimport drop_callback, with_callback
from syncless._core.clock cimport NEVER, deadline_after, monotonic_ns
from syncless._core.cpython.layouts cimport holder_of_lock, is_lock, is_rlock, owner_of_rlock
from syncless._core.current cimport begin_still, end_still, wait_in
from syncless._core.linked cimport Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport (
    IN_C, OPEN, PARKED, SHIELDED, WOKEN, BaseTasklet, Thrown, next_pending,
)
from syncless._core.tasklet cimport Tasklet, ident_of
from syncless._core.threadloop cimport get_loop, loops, peek_loop
from syncless._core.wait.waitqueue cimport queue_pop, wake_all

from syncless._core.cleanup import in_clean_up

include "sync/graces.pxi"


cdef class Event:
    """Event()\n--\n\nA flag that tasklets wait for, like threading.Event."""

    def is_set(self) -> bool:
        return self.flag

    ready = is_set

    def set(self) -> None:
        """Set the flag and wake all waiters. Any thread may call set()."""
        self.flag = True
        wake_all(&self.waiters)
        if self.callbacks is not None:
            callbacks, self.callbacks = self.callbacks, None
            self._tell(callbacks)

    def _tell(self, callbacks):
        """Call them all. An interrupt of the running tasklet (a kill, a Timeout, Ctrl-C) is raised after
        that."""
        interrupt = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:
                get_loop().report(callback, error)
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def clear(self) -> None:
        self.flag = False

    def wait(self, timeout=None) -> bool:
        """Wait for set(), for at most `timeout` seconds. Return False after the timeout."""
        cdef int64_t deadline
        if self.flag:
            return True
        get_loop()
        deadline = deadline_after(timeout)
        if self.flag:       # see the module's text
            return True
        return wait_in(&self.waiters, "event", self, deadline) == WOKEN

    def add_done_callback(self, callback) -> None:
        """Call `callback(event)` once at the next set(), or immediately if the event is set. The callback
        must not block; its errors are reported."""
        if self.flag:
            self._tell([callback])
        else:
            self.callbacks = with_callback(self.callbacks, callback)

    def remove_done_callback(self, callback) -> int:
        """Remove the callback. Return how often the callback was registered."""
        return drop_callback(self.callbacks, callback)

    def __repr__(self):
        return f"<{type(self).__name__} {'set' if self.flag else 'unset'}>"


cdef uint64_t running() noexcept:
    """Return the serial number of the running tasklet."""
    cdef Loop loop = peek_loop()
    return loop.current.serial if loop is not None and loop.current is not None else 0


cdef class Semaphore:
    """Semaphore(value=1)\n--\n\nA semaphore that admits at most `value` tasklets between acquire() and
    release(), like threading.Semaphore."""

    def __init__(self, Py_ssize_t value=1):
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self.value = value

    cdef bint acquire_unit(self, bint blocking, object timeout) except -1:
        cdef BaseTasklet me
        cdef int64_t deadline = NEVER
        if self.value == 0:
            if not blocking:
                return False
            me = get_loop().current
            deadline = deadline_after(timeout)
        try:
            while self.value == 0:
                if not isinstance(self, Lock):
                    return wait_in(&self.waiters, "semaphore", self, deadline) == WOKEN
                if wait_for_lock(&self.waiters, "lock", self, deadline) != WOKEN:
                    return False
                if me is not None and me.handed_over:
                    return True
            self.value -= 1
            self.holder = running()
            return True
        except BaseException:
            if me is not None and me.handed_over:
                self.release_unit()
            raise

    cdef int release_unit(self) except -1:
        cdef BaseTasklet first
        while self.waiters.first != NULL:
            first = queue_pop(&self.waiters)
            if first.loop.wake(first, None):
                self.holder = first.serial
                return 0
        self.value += 1
        self.holder = 0
        return 0

    def acquire(self, blocking=True, timeout=None) -> bool:
        """Take a unit, waiting for at most `timeout` seconds. Return whether a unit was taken."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return self.acquire_unit(blocking, timeout)

    def release(self, Py_ssize_t n=1) -> None:
        """Give back n units. Any thread may call release()."""
        if n < 1:
            raise ValueError("n must be one or more")
        while n:
            self.release_unit()
            n -= 1

    def locked(self) -> bool:
        """Return whether acquire() would wait."""
        return self.value == 0

    def __enter__(self):
        return self.acquire_unit(True, None)

    def __exit__(self, kind, value, trace):
        self.release_unit()

    def __repr__(self):
        return f"<{type(self).__name__} value={self.value}>"


cdef class Lock(Semaphore):
    """Lock()\n--\n\nA lock that one tasklet at a time can hold; any tasklet may release it, as with
    threading.Lock."""

    def __init__(self):
        self.value = 1

    def acquire(self, blocking=True, timeout=-1) -> bool:
        """Take the lock, waiting for at most `timeout` seconds (-1 means forever). Return whether the lock
        was taken."""
        if timeout is not None and timeout != -1:
            if not blocking:
                raise ValueError("can't specify a timeout for a non-blocking call")
            if timeout < 0:
                raise ValueError("timeout value must be a non-negative number")
            return self.acquire_unit(blocking, timeout)
        return self.acquire_unit(blocking, None)

    def release(self) -> None:
        """Release the lock, or pass it to the tasklet that has waited longest. Raise RuntimeError if it is
        not held."""
        if self.value:
            raise RuntimeError("release unlocked lock")
        self.release_unit()

    def __exit__(self, kind, value, trace):
        self.release()

    def __repr__(self):
        held = f"held by tasklet {self.holder}" if self.holder else "locked"
        return f"<{type(self).__name__} {'unlocked' if self.value else held}>"


include "sync/deadlocks.pxi"
