"""Clocks that raise an exception in a tasklet. See timeout.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Thrown
from syncless._core.timers cimport Timer


cdef Thrown throw_in_time(BaseTasklet target, object exception)
cdef int stop_throwing(BaseTasklet target, Thrown thrown) except -1
cdef bint only_bounds(Loop loop, list waiters) noexcept


cdef class Timeout(BaseException):
    cdef public object seconds
    cdef public object exception
    cdef object other                   # raised instead of it, or None
    cdef Timer timer
    cdef BaseTasklet target             # the tasklet that started it, while it runs or has rung
    cdef object step                    # of an asyncio task, in which that was; or None
    cdef Thrown thrown                  # it has rung; None otherwise

    cdef int _start(self) except -1
    cdef int _begin(self) except -1
    cdef int stop(self) except -1
    cdef int _take_back(self) except -1
    cdef bint replaces(self, object value) except -1
    cdef int end(self, object kind) except -1
