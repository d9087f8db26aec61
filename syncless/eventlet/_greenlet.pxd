"""Green threads, for the native waits. See _greenlet.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.tasklet cimport Tasklet


cdef class Turn(Tasklet):
    pass


cpdef bint in_hub() noexcept


cdef inline bint is_in_hub(Loop loop) noexcept:
    """Return whether what the loop runs now is in no green thread."""
    return loop.current is None or type(loop.current) is Turn
