"""Green threads, for the native waits. See _greenlet.pyx."""

from syncless._core.tasklet cimport Tasklet


cdef class Turn(Tasklet):
    pass


cpdef bint in_hub() noexcept
