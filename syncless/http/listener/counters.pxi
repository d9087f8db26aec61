"""Counters: how many requests have been answered, with which status, and how long they took.

They are cells of 64 bits in memory that the caller gives, so that it can be shared: other processes read it
at any time, and the counts outlive the process. Counting a request is a few additions and one look at the
clock. The first FREE cells of a row are the caller's own. Tested by tests/status/test_counters.py.
"""

SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)
"""The upper bounds of the buckets of the latency, except for the last, which has none."""
FREE = <int> REQUESTS
CELLS = <int> ROW

cdef int _i
for _i in range(BUCKETS):
    BOUNDS[_i] = <int64_t> (SECONDS[_i] * 1e9) if _i < BUCKETS - 1 else INT64_MAX


cdef class Counters:
    """Counters(memory): a writable buffer of CELLS cells of 8 bytes."""

    def __cinit__(self, memory):
        PyObject_GetBuffer(memory, &self.memory, PyBUF_WRITABLE)
        if self.memory.len < ROW * 8:
            raise ValueError(f"counters need {ROW * 8} bytes, not {self.memory.len}")
        self.cells = <int64_t*> self.memory.buf

    def __dealloc__(self):
        PyBuffer_Release(&self.memory)

    def count(self, int code, int64_t ns=-1) -> None:
        """A request that has been answered; for tests."""
        if not 0 <= code < CODES:
            raise ValueError(f"{code} is not a status code")
        self.count_request(code, ns)


def totals(cells) -> dict:
    """Return the counts of a row of cells, a sequence of int."""
    return {
        "requests": by_status(cells, REQUESTS),
        "refused": by_status(cells, REFUSED),
        "latency": [int(number) for number in cells[LATENCY:LATENCY + BUCKETS]],
        "latency_seconds": cells[LATENCY_NS] / 1e9,
        "queue_times": [int(number) for number in cells[QUEUED:QUEUED + BUCKETS]],
        "queue_seconds": cells[QUEUED_NS] / 1e9,
        "http2_resets": by_error(cells, HTTP2_RESETS),
        "http2_goaways": by_error(cells, HTTP2_GOAWAYS),
    }


cdef dict by_error(cells, int start):
    return {name: cells[start + code] for code, name in enumerate(HTTP2_ERRORS) if cells[start + code]}


cdef dict by_status(cells, int start):
    return {code: number for code, number in enumerate(cells[start:start + CODES]) if number}
