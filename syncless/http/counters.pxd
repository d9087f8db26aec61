from libc.stdint cimport int64_t

from syncless.http.wire cimport BUCKETS

cdef enum:
    # where each begins in a row of cells
    REQUESTS = 64           # answered requests, by status; 0: the client got no answer
    REFUSED = 664           # answers of the server itself, to input that it did not run, by status
    LATENCY = 1264          # answered requests, by bucket
    LATENCY_NS = 1281       # of all of them together
    QUEUED = 1282           # requests of which a proxy tells when it took them, by bucket of their wait
    QUEUED_NS = 1299        # of all of them together
    ROW = 1304              # cells

cdef int64_t BOUNDS[BUCKETS]


cdef class Counters:
    cdef Py_buffer memory
    cdef int64_t* cells

    cdef inline void count_request(self, int code, int64_t ns) noexcept:
        """A request has been answered after `ns`; negative: its time was not measured."""
        self.cells[REQUESTS + code] += 1
        if ns >= 0:
            self.count_time(LATENCY, ns)

    cdef inline void count_queued(self, int64_t ns) noexcept:
        """A request has waited for `ns` before it began."""
        self.count_time(QUEUED, ns)

    cdef inline void count_time(self, int buckets, int64_t ns) noexcept:
        """`buckets`: where they begin; their sum lies behind them."""
        cdef int bucket = 0
        while ns > BOUNDS[bucket]:
            bucket += 1
        self.cells[buckets + bucket] += 1
        self.cells[buckets + BUCKETS] += ns

    cdef inline void count_refused(self, int code) noexcept:
        self.cells[REFUSED + code] += 1
