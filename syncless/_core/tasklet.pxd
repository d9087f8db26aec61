from cpython.object cimport PyObject

from syncless._core.scheduler cimport BaseTasklet, Scheduler, WaitQueue


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


cdef void end_process(BaseException exception) noexcept
cdef int refuse_spawn() except -1
cdef bint interrupt(BaseTasklet main, object exception) except -1
