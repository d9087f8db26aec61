"""Clocks that raise an exception in a tasklet. See timeout.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Thrown
from syncless._core.timers cimport Timer


cdef Thrown throw_in_time(BaseTasklet target, object exception)
cdef int stop_throwing(BaseTasklet target, Thrown thrown) except -1
cdef bint only_bounds(Loop loop, list waiters) noexcept
