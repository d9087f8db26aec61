"""Counts of the threads of native handlers, as cells of the server's counters (http/counters.pxd)."""

from libc.stdint cimport int64_t

from syncless.http.counters cimport LATENCY, LATENCY_NS, REFUSED, REQUESTS, Counters
from syncless.http.wire cimport BUCKETS, CODES
from syncless.native.threads cimport counts, server

cdef enum:
    COUNTED = 2 * CODES + BUCKETS + 1


cdef int CELL_OF[COUNTED]       # where each count is in a row of cells
cdef int _i
for _i in range(COUNTED):
    CELL_OF[_i] = (
        REQUESTS + _i if _i < CODES else REFUSED + _i - CODES if _i < 2 * CODES
        else LATENCY_NS if _i == COUNTED - 1 else LATENCY + _i - 2 * CODES)


cdef int64_t total_of(const server* of, int at) noexcept:
    """One of the counts, in the order of CELL_OF, of all threads."""
    cdef int i
    cdef int64_t total = 0
    for i in range(of.thread_count):
        total += counted(&of.threads[i].counts, at)
    return total


cdef int64_t counted(const counts* of, int at) noexcept:
    if at < CODES:
        return of.requests[at]
    if at < 2 * CODES:
        return of.refused[at - CODES]
    return of.latency_ns if at == COUNTED - 1 else of.latency[at - 2 * CODES]


cdef int add_new(const server* of, int64_t* collected, Counters counters) except -1:
    """Adds what they have counted since it was `collected`, in the order of CELL_OF, the last time."""
    cdef int at
    cdef int64_t total
    for at in range(COUNTED):
        total = total_of(of, at)
        counters.cells[CELL_OF[at]] += total - collected[at]
        collected[at] = total
    return 0
