"""The table of contents of transports.pyx."""

from syncless.asyncio.halves cimport Endpoint, Reader, Writer


cdef class SocketTransport(Endpoint):
    cdef object sock                # None once it is closed
    cdef object server              # the asyncio Server that accepted it, or None
    cdef object context             # for the protocol's methods, given since Python 3.15; or None: a copy
    cdef dict extra
    cdef Reader reading
    cdef Writer writing
    cdef object __weakref__

    cdef int begin(self, object protocol, object waiter, object extra, object server, list begun) except -1
    cdef int close_socket(self) except -1
