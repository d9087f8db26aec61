"""How a thread's tasklets end. See ending.pyx."""

from syncless._core.scheduler cimport Scheduler


cdef int end_tasklets(Scheduler loop) except -1
cdef int end_carriers(Scheduler loop) except -1
