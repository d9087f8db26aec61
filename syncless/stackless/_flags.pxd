"""Flags of a tasklet, and its context. See _flags.pyx."""

from syncless._core.tasklet cimport Tasklet


cdef class FlaggedTasklet(Tasklet):
    cdef public bint block_trap
    cdef readonly bint atomic
    cdef readonly bint ignore_nesting

    cdef int flags(self) noexcept
    cdef int set_flags(self, int flags) except -1
