"""The clock that the engine reads: the system's, or a virtual one, which stands still until it is set. It is
that of one thread; the loops of others wait by the system's.

Takes: the times to which somebody sets it. Gives: a clock that all of the engine reads, by read_clock(), and
Python code by syncless/testing/virtualtime.py. It must not know who waits for which time.
"""

from libc.stdint cimport int64_t

cdef extern from "Python.h" nogil:
    unsigned long PyThread_get_thread_ident()

cdef int64_t virtual_ns = NEVER
cdef unsigned long owner


cdef int read_virtual(int clock, timespec* ts) noexcept nogil:
    if clock != CLOCK_MONOTONIC or PyThread_get_thread_ident() != owner:
        return clock_gettime(clock, ts)
    ts.tv_sec = virtual_ns // 1000000000
    ts.tv_nsec = virtual_ns % 1000000000
    return 0


cdef Read read_clock = <Read> clock_gettime


def set_virtual(int64_t ns) -> None:
    """The clock of the thread that calls it first stands still at this time from now on; NEVER: it is the
    system's again."""
    global virtual_ns, owner, read_clock
    if virtual_ns == NEVER:
        owner = PyThread_get_thread_ident()
    virtual_ns = ns
    read_clock = <Read> clock_gettime if ns == NEVER else read_virtual


def get_virtual() -> int:
    """Return the time of the virtual clock, or NEVER."""
    return virtual_ns
