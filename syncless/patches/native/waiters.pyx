"""Wait queues of objects that have no room for one: the interpreter's locks and SimpleQueues.

Takes any object. Gives the queue of the tasklets that wait for it, which exists while there are any. Must not
know what they wait for.
"""

cimport cython

from syncless._core.scheduler cimport BaseTasklet
from syncless._core.wait.waitqueue cimport queue_pop

cdef dict waiting = {}              # id of an object -> Waiters


@cython.final
cdef class Waiters:
    pass


cdef Waiters join_waiters(object thing):
    # in one step, because making one may run a finaliser that switches
    cdef Waiters waiters = waiting.setdefault(id(thing), Waiters())
    waiters.count += 1
    return waiters


cdef int leave_waiters(object thing, Waiters waiters) except -1:
    waiters.count -= 1
    assert waiters.count >= 0 and waiting[id(thing)] is waiters
    if waiters.count == 0:
        assert waiters.queue.first == NULL
        del waiting[id(thing)]
    return 0


cdef int wake_first(object thing) except -1:
    """The first waiter tries again. If it was killed or its time is over, the next one does."""
    cdef Waiters waiters
    cdef BaseTasklet first
    if waiting:
        waiters = waiting.get(id(thing))
        while waiters is not None and waiters.queue.first != NULL:
            first = queue_pop(&waiters.queue)
            if first.loop.wake(first, None):
                break
    return 0
