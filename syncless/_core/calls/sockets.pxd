"""The socket object of the standard library, and how calls on it wait. See sockets.pyx."""

from libc.stdint cimport int64_t

from syncless._core.cpython.layouts cimport socket

cdef extern from "<sys/socket.h>":
    struct sockaddr_storage:
        unsigned short ss_family

cdef enum:
    UNKNOWN = -2        # a deadline that has not been computed yet, because nothing has had to wait
    NO_WAIT = -3        # for the call that must not wait, whatever the socket's timeout

cdef object peer_name(sockaddr_storage* address)
cdef int64_t limit_of(socket self, int flags) noexcept
cdef int wait(socket self, int bit, int64_t* deadline) except -1
cdef int begin(socket self, int bit) except -1
cdef int await_ready(socket self, int bit, int64_t* deadline) except -1
cdef bint sends_all(socket self, int flags) noexcept
cdef bint goes_on(socket self, Py_ssize_t done, int64_t* deadline) except -1
cdef Py_ssize_t send_rest(socket self, object data, Py_ssize_t done, int flags) except -1
