from syncless.http.body cimport Body
from syncless.http.buffers cimport Buffers
from syncless.http.peer cimport Peer


cdef class BodyMessages:
    cdef Body body
    cdef Peer peer
    cdef Buffers buffers            # for received bytes
    cdef object loop                # asyncio's
    cdef bint complete              # the last http.request has been given
    cdef object hearer              # the future of receive() that waits, or None
    cdef object reader              # the tasklet that reads, or None
    cdef object message             # the one that no receive() has had yet, or None
    cdef object failure             # the exception in its place, or None

    cdef object hear(self)
    cdef int end(self) except -1
    cdef bytes piece_now(self)
    cdef int hand_over(self) except -1
