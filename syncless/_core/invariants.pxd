"""Invariants that hold between any two steps of the engine. See invariants.pyx."""

from syncless._core.scheduler cimport Scheduler
from syncless._core.wait.waitqueue cimport WaitQueue

cdef extern from *:
    """
    #ifdef NDEBUG
    #define SYNCLESS_DEBUG 0
    #else
    #define SYNCLESS_DEBUG 1
    #endif
    """
    bint DEBUG_BUILD "SYNCLESS_DEBUG"

cdef int check_scheduler(Scheduler loop) except -1
cdef int check_queue(WaitQueue* queue) except -1
