from libc.stdint cimport int64_t

from syncless.http.peer cimport Peer
from syncless.http.wire cimport framing, limits


cdef enum:
    DIRECT = 16384      # bytes wanted from which on they bypass the connection's buffer


cdef class Body:
    cdef Peer source                # None: the request has ended
    cdef framing framing            # which bytes of the connection are its own
    cdef bint expects_continue      # the client waits for 100 (Continue)
    cdef bint broken                # its framing failed: the connection is of no more use

    cdef void begin(self, Peer source, int64_t length, bint chunked, bint expects_continue) noexcept
    cdef inline void end(self) noexcept:
        """The request has ended: reading raises ClientGone from now on."""
        self.source = None

    cdef Py_ssize_t window(self, char** data) except -1
    cdef void advance(self, Py_ssize_t n) noexcept
    cdef Py_ssize_t read_into(self, char* into, Py_ssize_t n) except -1
    cdef bint at_hand(self) noexcept
    cdef Py_ssize_t gather(self, char* into, Py_ssize_t n) except -1
    cdef bint drainable(self, Py_ssize_t most) noexcept
    cdef bint drain(self, Py_ssize_t most) except -1

    cdef Peer readable_source(self)
    cdef bint next_chunk(self) except -1
    cdef int fail_framing(self, const limits* by, int status) except -1
    cdef int wait_for_more(self) except -1
    cdef int fail_gone(self) except -1
