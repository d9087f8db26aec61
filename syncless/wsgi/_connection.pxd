from libc.stdint cimport uint8_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Scheduler
from syncless.wsgi._head cimport head
from syncless.wsgi._peer cimport Peer
from syncless.wsgi._request cimport Request

cdef enum Phase:
    GREETING        # what comes before HTTP: see _greeting.pyx
    READING         # a request head, or nothing yet
    QUEUED          # a request waits until fewer run
    RUNNING_APP     # a request is being answered
    LINGERING       # refused or closed by us; what the client still sends is thrown away
    CLOSED


cdef class Connection(Peer):      # there may be many idle ones: flags are bytes, sizes 32 bits
    cdef int lingered           # bytes thrown away
    cdef uint8_t phase
    cdef uint8_t closing        # to be closed once all is sent
    cdef uint8_t kept           # it has had an answer and was not closed
    cdef uint8_t unread         # a part of a body was neither read by the application nor drained
    cdef BaseTasklet reader     # parked for bytes of a body
    cdef Request request        # while QUEUED or RUNNING_APP

    cdef int greet(self, Loop loop) except -1
    cdef int answer(self, Loop loop, Request request, bint has_turn) except -1
    cdef int queue_up(self, Loop loop) except -1
    cdef int dismiss(self, Request request) except -1
    cdef int process(self, Loop loop) except -1
    cdef Request next_request(self, Loop loop)
    cdef Request prepare(self, const char* data, head* found)
    cdef int wait_readable(self) except -1
    cdef int check_pace(self) except -1
    cdef int keep(self, const char* data, size_t size) except -1
    cdef int refuse(self, Loop loop, int status, str explanation=*) except -1
    cdef int close_when_sent(self, Loop loop) except -1
    cdef int finish(self, Loop loop) except -1
    cdef int linger(self, Loop loop) except -1
    cdef int rest(self, Loop loop) except -1
