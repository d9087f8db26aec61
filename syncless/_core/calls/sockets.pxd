"""The socket object of the standard library, and how calls on it wait. See sockets.pyx."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <Python.h>
    #include <sys/socket.h>

    /* The beginning of PySocketSockObject. */
    typedef struct {
        PyObject_HEAD
        int sock_fd;
        int sock_family;
        int sock_type;
        int sock_proto;
        PyObject *(*errorhandler)(void);
        long long sock_timeout;             /* ns; -1 none, 0 non-blocking */
    } SynclessSocket;
    """
    ctypedef class _socket.socket [object SynclessSocket, check_size ignore]:
        cdef int sock_fd
        cdef int sock_family
        cdef int sock_type
        cdef int sock_proto
        cdef long long sock_timeout

    struct sockaddr_storage:
        unsigned short ss_family

cdef enum:
    UNKNOWN = -2        # a deadline that has not been computed yet, because nothing has had to wait
    NO_WAIT = -3        # for the call that must not wait, whatever the socket's timeout

cdef object peer_name(sockaddr_storage* address)
cdef int wait(socket self, int bit, int64_t* deadline) except -1
cdef int begin(socket self, int bit) except -1
cdef int await_ready(socket self, int bit, int64_t* deadline) except -1
cdef bint sends_all(socket self, int flags) noexcept
cdef bint goes_on(socket self, Py_ssize_t done, int64_t* deadline) except -1
cdef Py_ssize_t send_rest(socket self, object data, Py_ssize_t done, int flags) except -1
