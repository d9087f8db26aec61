from libc.stdint cimport int64_t

from syncless.http.peer cimport Peer


cdef enum:
    DIRECT = 16384      # bytes wanted from which on they bypass the connection's buffer


cdef class Body:
    cdef Peer source                # None: the request has ended
    cdef int64_t remaining          # bytes left of the body, or of the present chunk
    cdef int64_t total              # bytes of a chunked body so far
    cdef int64_t max_bytes          # of a chunked body
    cdef int chunk_line, trailers   # limits, bytes
    cdef bint chunked
    cdef bint in_chunk              # its end (CRLF) has not been read
    cdef bint expects_continue      # the client waits for 100 (Continue)
    cdef bint finished              # nothing of the body is left on the connection
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
    cdef void count(self, Py_ssize_t n) noexcept
    cdef bint next_chunk(self) except -1
    cdef int end_chunk(self) except -1
    cdef int64_t read_chunk_line(self) except -1
    cdef int read_trailers(self) except -1
    cdef int wait_for_more(self) except -1
    cdef int fail_gone(self) except -1
