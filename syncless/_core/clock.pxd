"""Time in the engine: nanoseconds of the monotonic clock, as int64. A deadline of NEVER is no deadline."""

from libc.stdint cimport int64_t

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* ts)
    int CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID

cdef enum:
    NEVER = -1

# clock_gettime, or that of a virtual clock: see clock.pyx. A call through it is as long as the library's.
ctypedef int (*Read)(int clock, timespec* ts) noexcept nogil
cdef Read read_clock


cdef inline int64_t clock_ns(int clock) noexcept nogil:
    cdef timespec ts
    read_clock(clock, &ts)
    return <int64_t> ts.tv_sec * 1000000000 + ts.tv_nsec


cdef inline int64_t monotonic_ns() noexcept nogil:
    return clock_ns(CLOCK_MONOTONIC)


cdef inline int64_t deadline_after(object seconds) except -2:
    """NEVER for None, else the monotonic time in that many seconds (float or int)."""
    cdef double s
    if seconds is None:
        return NEVER
    s = seconds
    if s != s:
        raise ValueError("a timeout must be a number of seconds, not NaN")
    if s <= 0:
        return monotonic_ns()
    if s > 9e9:         # 285 years: int64 nanoseconds end there
        return NEVER
    return monotonic_ns() + <int64_t> (s * 1e9)
