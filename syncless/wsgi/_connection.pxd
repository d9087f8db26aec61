from libc.stdint cimport uint8_t, uint32_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Scheduler
from syncless.wsgi._head cimport head
from syncless.wsgi._peer cimport Peer
from syncless.wsgi._request cimport Request
from syncless.wsgi._service cimport Buffer, Service

cdef enum Phase:
    READING         # a request head, or nothing yet
    RUNNING_APP     # a request is being answered
    LINGERING       # refused or closed by us; what the client still sends is thrown away
    CLOSED


cdef class Connection(Peer):      # there may be many idle ones: flags are bytes, sizes 32 bits
    cdef uint32_t inbox_start   # of the inbox, used up
    cdef int lingered           # bytes thrown away
    cdef int remote_port        # -1: the family has none
    cdef uint8_t phase
    cdef uint8_t readable          # recv() may have something
    cdef uint8_t hung              # the client sends no more; recv() is worth trying until it says so
    cdef uint8_t ended             # recv() has said so
    cdef uint8_t closing           # to be closed once all is sent
    cdef uint8_t kept              # it has had an answer and was not closed
    cdef uint8_t unread            # a part of a body was neither read by the application nor drained
    cdef Buffer inbox           # received and not used yet
    cdef BaseTasklet reader     # parked for bytes of a body
    cdef Request request        # while RUNNING_APP
    cdef object remote_addr

    cdef int process(self, Loop loop) except -1
    cdef Request next_request(self, Loop loop)
    cdef Request prepare(self, const char* data, head* found)
    cdef Py_ssize_t receive(self, char* into, size_t room) except -2
    cdef Py_ssize_t receive_more(self) except -2
    cdef int wait_readable(self) except -1
    cdef int keep(self, const char* data, size_t size) except -1
    cdef int refuse(self, Loop loop, int status) except -1
    cdef int close_when_sent(self, Loop loop) except -1
    cdef int finish(self, Loop loop) except -1
    cdef int linger(self, Loop loop) except -1
    cdef int rest(self, Loop loop) except -1
