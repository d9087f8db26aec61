"""The actions of a running tasklet, and the doors to a wait. Each of these leads through Scheduler.park();
take the first that fits:

wait_fd           a descriptor of ours: registered for good, until FdTable.forget()
wait_foreign_fd   a descriptor of others: registered for this wait only
wait_in           another tasklet, which finds the waiter in a WaitQueue
Scheduler.park    anything else: a time, wake(), several queues at once
unchecked_park    for these functions themselves: park() where something is to be undone, see scheduler.pxd
"""

from libc.stdint cimport int64_t, uint64_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.wait.waitqueue cimport WaitQueue

cdef int wait_fd(Loop loop, int fd, int bit, int64_t deadline, const char* why, object on) except -1
cdef int wait_foreign_fd(Loop loop, int fd, int bits, int64_t deadline) except -1
cdef int wait_in(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1


cpdef bint may_park() noexcept
cdef int take_turns() except -1
cdef int take_turns_on(int fd, int bit) except -1
cpdef object next_thrown()


cdef inline BaseTasklet begin_still(Loop loop):
    """From now until end_still() nothing parks or yields, see directly(). Returns what that is given."""
    cdef BaseTasklet me = loop.current
    if me is not None:
        loop.current, loop.still = None, me
    return me


cdef int end_still(Loop loop, BaseTasklet me, uint64_t before) except -1


cdef inline BaseTasklet acting(Loop loop):
    """The tasklet whose code this is: the current one, or the one that takes steps in which nothing may wait;
    None in a callback of the loop."""
    return loop.current if loop.current is not None else loop.still


cdef class ThrownHere:
    cdef BaseTasklet tasklet
    cdef list before, thrown
