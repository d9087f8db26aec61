"""The loop's table of contents. How it works is told in loop.pyx, and before that in scheduler.pyx."""

from cpython.object cimport PyObject

from syncless._core.fdtable cimport FdTable
from syncless._core.poll.poller cimport Poller, PollEvent
from syncless._core.scheduler cimport Observer, Runnable, Scheduler

cdef class Loop


cdef class Watcher(Runnable):
    """Something that is told, at the base of the loop, when its descriptor is ready."""
    cdef int on_ready(self, Loop loop, int bits) except -1
    cdef int forked(self, Loop loop) except -1
    cdef int loop_ended(self, Loop loop) except -1


cdef class Loop(Scheduler):
    cdef Poller poller
    cdef FdTable fds                # the waiters for each descriptor
    cdef PollEvent* events          # the last poll's; any leader goes on at event_pos
    cdef int event_pos, event_count
    cdef PyObject** pre_poll        # due before the next poll, owned
    cdef Py_ssize_t pre_poll_count, pre_poll_capacity
    cdef readonly object thread_id
    cdef object __weakref__
    cdef bint forked
    cdef int heard                  # the descriptor by which signals wake it
    cdef public Py_ssize_t jobs     # calls in real threads that tasklets of this loop wait for
    cdef public object when_idle    # called with the loop before it waits with nothing ready, or None
    cdef public bint idle_or_not    # it is called before each poll

    cdef int observe(self, Observer observer) except -1
    cdef int unobserve(self, Observer observer) except -1

    cdef bint may_wake(self, Py_ssize_t others, bint timers) noexcept
    cdef int before_poll(self, Runnable item) except -1
    cdef int run_before_poll(self) except -1
    cdef int start(self) except -1
    cdef int hear_signals(self) except -1
    cdef int find_again(self) except -1
