"""The interpreter's SimpleQueue, as functions that stand in the place of its methods: a tasklet that would
block parks. A thread without a loop blocks as it always did.
"""

import _queue
from _queue import Empty

from libc.stdint cimport int64_t

from syncless._core.clock cimport deadline_after
from syncless._core.current cimport may_park
from syncless._core.scheduler cimport WOKEN, BaseTasklet
from syncless._core.threadloop cimport peek_loop
from syncless._core.waits cimport wait_in
from syncless.patches.native.locks cimport take_turns_at_times
from syncless.patches.native.waiters cimport Waiters, join_waiters, leave_waiters, wake_first

cdef object original_put = _queue.SimpleQueue.put
cdef object original_get = _queue.SimpleQueue.get


def simple_queue_put(self, item, block=True, timeout=None):
    """put(item): never blocks"""
    original_put(self, item)
    wake_first(self)


def simple_queue_put_nowait(self, item):
    """put_nowait(item): the same as put(item)"""
    original_put(self, item)
    wake_first(self)


def simple_queue_get_nowait(self):
    """get_nowait() -> item; queue.Empty"""
    return simple_queue_get(self, False)


def simple_queue_get(self, block=True, timeout=None):
    """get(block=True, timeout=None) -> item; queue.Empty"""
    cdef int64_t deadline
    cdef Waiters waiters
    cdef BaseTasklet me
    take_turns_at_times()
    if not block or not may_park():
        return original_get(self, block, timeout)
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")
    try:
        return original_get(self, False)
    except Empty:
        pass
    deadline = deadline_after(timeout)
    me = peek_loop().current
    waiters = join_waiters(self)
    try:
        while True:
            try:
                return original_get(self, False)
            except Empty:
                pass
            if wait_in(&waiters.queue, "queue", self, deadline) != WOKEN:
                raise Empty
    except BaseException:
        if me.handed_over:
            wake_first(self)
        raise
    finally:
        leave_waiters(self, waiters)
