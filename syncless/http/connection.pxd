from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless.http.bodysource cimport BodySource
from syncless.http.scanner cimport head
from syncless.http.exchange cimport Exchange

cdef enum Phase:
    GREETING        # what comes before HTTP: see greeting.pyx
    READING         # a request head, or nothing yet
    QUEUED          # a request waits until fewer run
    RUNNING_APP     # a request is being answered
    LINGERING       # refused or closed by us; what the client still sends is thrown away
    CLOSED


cdef class Connection(BodySource):      # there may be many idle ones: flags are bytes, sizes 32 bits
    cdef bint just_came(self, Loop loop, int64_t age) noexcept
    cdef int greet(self, Loop loop) except -1
    cdef int answer(self, Loop loop, Exchange request, bint has_turn) except -1
    cdef int queue_up(self, Loop loop) except -1
    cdef int finish_request(self, Exchange request) except -1
    cdef int process(self, Loop loop) except -1
    cdef Exchange next_request(self, Loop loop)
    cdef Exchange begin_request(self, const char* data, head* found)
    cdef int keep(self, const char* data, size_t size) except -1
    cdef int refuse(self, Loop loop, int status, str explanation=*, dict variables=*) except -1
    cdef int refuse_busy(self, Loop loop) except -1
    cdef int close_when_sent(self, Loop loop) except -1
    cdef bint close_idle(self, Loop loop) except -1
    cdef int finish(self, Loop loop) except -1
    cdef int read_away(self, Loop loop) except -1
    cdef int rest(self, Loop loop) except -1
