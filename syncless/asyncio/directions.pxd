"""The table of contents of directions.pyx."""

from syncless.asyncio.descriptors cimport Descriptor, ReadyHandle


cdef class Endpoint(Descriptor):
    cdef object loop                # None once the connection is lost
    cdef object protocol
    cdef int lost                   # 0: connected; else how often it was written to since then
    cdef bint closing

    cdef object went_wrong(self, error, message)
    cdef int finish_closing(self) except -1
    cdef int follow(self) except -1
    cdef int forget(self) except -1


cdef class Direction(ReadyHandle):
    cdef Endpoint endpoint
    cdef bint more                  # the socket may be ready again, as far as is known
    cdef str trouble                # message for the exception that is about to be raised, or None

    cdef object go_on(self)
    cdef bint is_wanted(self) noexcept
    cdef int look_again(self) except -1
