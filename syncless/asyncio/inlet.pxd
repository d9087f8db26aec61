"""The table of contents of inlet.pyx."""

from syncless.asyncio.directions cimport Direction, Endpoint


cdef class Inlet(Direction):
    cdef object get_buffer          # of a BufferedProtocol, else None
    cdef bint glues                 # a read that fills less than its buffer has read all
    cdef bint hung_up               # the end of what the peer sends has been reported, and not been read
    cdef bint paused

    cdef int begin(self, Endpoint endpoint, bint glues, object context) except -1
    cdef int give_to(self, object protocol) except -1
    cdef int reported(self, int bits) except -1
    cdef object read(self)
    cdef object read_into_buffer(self)
    cdef object read_none(self, ssize_t n, int error)
    cdef int reached_end(self) except -1
