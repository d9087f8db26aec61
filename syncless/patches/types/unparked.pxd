"""Waits of code that cannot park: see unparked.pyx."""

from libc.stdint cimport int64_t

from syncless._core.scheduler cimport BaseTasklet

cdef bint is_on_loop() noexcept
cdef object seconds_to(int64_t deadline)
cdef bint acquire_alone(object lock, object original, int64_t deadline) except -1
cdef int64_t patience(object thing, int64_t deadline) except -1
cdef bint refuse(object thing, BaseTasklet holder) except -1
