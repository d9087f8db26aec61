"""The state of a tasklet. See _state.pyx."""

from syncless._core.tasklet cimport Tasklet
from syncless.stackless._thread cimport Guard


cdef class StatefulTasklet(Tasklet):
    cdef bint ready_to_run          # it has its arguments
    cdef bint inserted              # it is new, and in the run queue
    cdef public bint block_trap
    cdef readonly bint atomic
    cdef readonly bint ignore_nesting
    cdef Guard guard                # the handling of its exceptions, if it was set, or None

    cdef bint is_alive(self) noexcept
    cdef bint is_blocked(self) noexcept
    cdef bint is_scheduled(self) noexcept
    cdef bint has_no_thread(self) noexcept
    cdef object neighbour(self, int step)
    cdef int flags(self) noexcept
    cdef int set_flags(self, int flags) except -1
    cdef Guard guarded(self)


cdef class TracedTasklet(StatefulTasklet):
    cdef object trace, profile      # those with which it will begin, or None

    cdef object function_of(self, bint profile)
    cdef int set_function(self, bint profile, object function) except -1
