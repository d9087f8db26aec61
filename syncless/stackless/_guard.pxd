"""The handling of a tasklet's exceptions. See _guard.pyx."""

from syncless._core.scheduler cimport BaseTasklet


cdef class Guard:
    cdef bint dont_raise
    cdef object exception_handler
    cdef object context_manager_getter

    cdef object call_caught(self, BaseTasklet one, object function, tuple args, dict kwargs)
