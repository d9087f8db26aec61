"""Wait queues: tasklets that wait for one thing, first in, first out.

A tasklet stands in one queue at most, with a node of its own. A killed tasklet, or one whose time is over,
stays in its queue until it next runs, so a waker asks waits() or looks at what wake() returns.
"""

from cpython.object cimport PyObject

from syncless._core.linked cimport LinkedList, append, remove
from syncless._core.scheduler cimport COVERED, PARKED, STANDS_IN, BaseTasklet, StandIn

ctypedef LinkedList WaitQueue       # borrowed: a parked tasklet keeps itself alive


cdef inline void queue_add(WaitQueue* queue, BaseTasklet tasklet) noexcept:
    append(queue, &tasklet.place, <PyObject*> tasklet)


cdef inline void queue_remove(WaitQueue* queue, BaseTasklet tasklet) noexcept:
    remove(queue, &tasklet.place)


cdef inline bint is_queued(BaseTasklet tasklet) noexcept:
    return tasklet.place.owner != NULL


cdef inline BaseTasklet queue_pop(WaitQueue* queue):
    """The first of a queue that is not empty."""
    tasklet = <BaseTasklet> queue.first.owner
    remove(queue, queue.first)
    return tasklet


cdef inline bint waits(BaseTasklet tasklet) noexcept:
    return tasklet.state == PARKED or tasklet.state == COVERED or (
        tasklet.state == STANDS_IN and (<StandIn> tasklet).stands())


cdef inline bint someone_waits(WaitQueue* queue) noexcept:
    """Whether a tasklet in the queue waits. One that does not is taken out of it."""
    while queue.first != NULL:
        if waits(<BaseTasklet> queue.first.owner):
            return True
        remove(queue, queue.first)
    return False


cdef inline int wake_all(WaitQueue* queue) except -1:
    """Every tasklet of the queue goes on."""
    cdef BaseTasklet tasklet
    while queue.first != NULL:
        tasklet = queue_pop(queue)
        tasklet.loop.wake(tasklet, None)
    return 0
