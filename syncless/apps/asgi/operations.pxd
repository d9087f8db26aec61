"""receive() and send(). See operations.pyx."""

from syncless._core.cpython.vectorcall cimport Vectorcall
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Body, Peer
from syncless.http.stream cimport Buffers


cdef class Conversation(Exchange):
    cdef object next_message(self)
    cdef object take_message(self, object message)


cdef class Operation:
    cdef Conversation request       # None: the request has ended, or never was
    cdef object message             # to send, or RECEIVE
    cdef object inner               # the iterator of a future that is waited for

    cdef object start(self)


cdef class Operations:
    cdef Conversation request       # None: the request has ended


cdef class OperationFunction:
    cdef Vectorcall vectorcall
    cdef Operations operations
    cdef int takes                  # how many arguments: 0 of receive(), 1 of send()
    cdef object __weakref__

    cdef Operation operation(self, object message)


cdef OperationFunction new_function(Operations operations, int takes)


cdef class BodyMessages:
    cdef Body body
    cdef Peer peer
    cdef Buffers buffers            # for received bytes
    cdef object loop                # asyncio's
    cdef bint complete              # the last http.request has been given
    cdef object receiver            # the future of receive() that waits, or None
    cdef object reader              # the tasklet that reads, or None
    cdef object message             # the one that no receive() has had yet, or None
    cdef object failure             # the exception in its place, or None

    cdef object next_message(self)
    cdef int end(self) except -1
    cdef bytes piece_now(self)
    cdef int hand_over(self) except -1
