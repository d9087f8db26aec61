"""Blocks for Python frames that are kept; and the mark by which caches of the engine follow the load: the
most that was in use at once lately. See chunkcache.pyx."""

from libc.stdint cimport int64_t

cdef enum:
    SINKS_EVERY = 1000000000    # ns in which a mark sinks by a quarter of what is beyond the present use


cdef inline int64_t sink(long* mark, int64_t* sunk, long used, int64_t now) noexcept:
    """Lowers the mark if it is time to. `sunk`: when it last sank. Returns when it sinks next, ns."""
    if now - sunk[0] >= SINKS_EVERY:
        sunk[0] = now
        mark[0] -= (mark[0] - used + 3) / 4
    return sunk[0] + SINKS_EVERY


cdef int64_t lower_mark(int64_t now) noexcept
