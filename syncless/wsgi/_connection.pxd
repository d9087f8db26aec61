from libc.stdint cimport uint8_t

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


cdef class Connection(Peer):
    cdef uint8_t phase
    cdef bint readable          # recv() may have something
    cdef bint hung              # the client sends no more; recv() is worth trying until it says so
    cdef bint ended             # recv() has said so
    cdef bint closing           # to be closed once all is sent
    cdef bint kept              # it has had an answer and was not closed
    cdef bint unread            # a part of a body was neither read by the application nor drained
    cdef int lingered           # bytes thrown away
    cdef Buffer inbox           # received and not used yet
    cdef size_t inbox_start
    cdef BaseTasklet reader     # parked for bytes of a body
    cdef Request request        # while RUNNING_APP
    cdef object remote_addr
    cdef object remote_port

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
