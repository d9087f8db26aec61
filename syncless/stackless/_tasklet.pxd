"""Stackless Python's tasklets. See _tasklet.pyx."""

from syncless._core.scheduler cimport Scheduler
from syncless.stackless._state cimport TracedTasklet
from syncless.stackless._thread cimport Thread


cdef class tasklet(TracedTasklet):
    cdef public object tempval
    cdef bint spawned               # by syncless.spawn: errors are reported, and result() has them

    cdef object bound_function(self)
    cdef int give(self, tuple args, dict kwargs) except -1
    cdef int enter(self, Scheduler loop) except -1
    cdef int make_ready(self) except -1
    cdef int run_next(self, Thread state, bint stays) except -1
    cdef int check(self, str verb) except -1
