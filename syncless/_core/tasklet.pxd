from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.scheduler cimport BaseTasklet, Scheduler, WaitQueue
from syncless._core.timers cimport Timer


cdef class Tasklet(BaseTasklet):
    cdef object function            # None once it has ended
    cdef tuple args
    cdef dict kwargs
    cdef object context             # contextvars.Context in which it runs
    cdef str _name
    cdef object _result
    cdef BaseException _exception
    cdef list callbacks
    cdef WaitQueue joiners
    cdef object __weakref__

    cdef bint begin(self, Scheduler loop) except -1
    cdef int _end(self, Scheduler loop, PyObject* returned) except -1
    cdef int finish(self, Scheduler loop, object result, BaseException exception) except -1
    cdef int tell(self, Scheduler loop) except -1


cdef class MainTasklet(Tasklet):
    pass


cdef class Alarm:
    cdef Timer timer
    cdef Scheduler loop
    cdef BaseTasklet target
    cdef object exception


cdef void end_process(BaseException exception) noexcept
