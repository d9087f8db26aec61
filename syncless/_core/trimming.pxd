from libc.stdint cimport int64_t

from syncless._core.scheduler cimport Scheduler


cdef int64_t trim(Scheduler loop, int64_t timeout) except -2
