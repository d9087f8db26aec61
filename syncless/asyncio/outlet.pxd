"""The table of contents of outlet.pyx."""

from syncless.asyncio.directions cimport Direction, Endpoint
from syncless.asyncio.unsent cimport Unsent


cdef class Outlet(Direction):
    cdef Unsent unsent
    cdef Py_ssize_t high, low       # bytes that are unsent when the protocol is told to pause and to go on
    cdef object empty_waiter        # in a sendfile(): Future for the moment when nothing is unsent; or None
    cdef bint ended                 # write_eof() was called
    cdef bint protocol_paused

    cdef int begin(self, Endpoint endpoint, object context) except -1
    cdef int write(self, object data) except -1
    cdef int write_all(self, list pieces) except -1
    cdef int end(self) except -1
    cdef int check(self, str function, Py_ssize_t size) except -1
    cdef int wait_for_room(self) except -1
    cdef int all_sent(self) except -1
    cdef int shut_down(self) except -1
    cdef int set_limits(self, object high, object low) except -1
    cdef int may_pause_protocol(self) except -1
    cdef int may_resume_protocol(self) except -1
    cdef int tell_protocol(self, str method) except -1
