"""Bytes that were written to a transport, and that its socket has not taken yet.

Takes bytes in their order. Gives them to the socket, many pieces in one system call. It must not know what a
transport is (transports.pyx), nor wait.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cython cimport final
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset, strerror

from syncless._core.calls.portable cimport MSG_NOSIGNAL

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, msghdr* message, int flags)

cdef enum:
    PIECES = 64                     # in one system call
    TURN = 1 << 20                  # bytes; then others get a turn
    SENT = 256                      # parts that are kept before they are dropped at once


@final
cdef class Unsent:
    def __cinit__(self):
        self.parts = []

    cdef int put(self, object data, Py_ssize_t sent) except -1:
        """Adds the data, of which `sent` bytes have been sent already. A mutable object is copied."""
        if type(data) is bytes and (self.size == 0 or sent == 0):
            self.parts.append(data)
            self.size += PyBytes_GET_SIZE(data) - sent
            if sent:
                self.skip = sent                    # it is the first of all
        else:
            data = bytes(memoryview(data).cast("B")[sent:])
            self.parts.append(data)
            self.size += len(data)
        return 0

    cdef int transmit(self, int fd) except -1:
        """Sends what the socket takes now. Returns whether it may take more: true after a megabyte."""
        cdef iovec pieces[PIECES]
        cdef msghdr message
        cdef Py_ssize_t sent = 0, i, count
        cdef ssize_t n
        while self.size:
            if sent >= TURN:
                return True
            count = min(<Py_ssize_t> PIECES, len(self.parts) - self.first)
            for i in range(count):
                part = self.parts[self.first + i]
                pieces[i].iov_base = PyBytes_AS_STRING(part)
                pieces[i].iov_len = PyBytes_GET_SIZE(part)
            pieces[0].iov_base = <char*> pieces[0].iov_base + self.skip
            pieces[0].iov_len -= self.skip
            memset(&message, 0, sizeof(message))
            message.msg_iov = pieces
            message.msg_iovlen = count
            n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            if n >= 0:
                sent += n
                self.drop(n)
            elif errno == EAGAIN:
                return False
            elif errno != EINTR:
                raise OSError(errno, strerror(errno).decode())
        return False

    cdef int drop(self, Py_ssize_t sent) except -1:
        """`sent` bytes more have been sent."""
        cdef Py_ssize_t left
        self.size -= sent
        while self.first < len(self.parts):
            left = PyBytes_GET_SIZE(self.parts[self.first]) - self.skip
            if sent < left:
                self.skip += sent
                break
            sent -= left
            self.skip = 0
            self.parts[self.first] = b""
            self.first += 1
        if self.first == len(self.parts):
            return self.clear()
        if self.first >= SENT:
            del self.parts[:self.first]
            self.first = 0
        return 0

    cdef int clear(self) except -1:
        self.parts.clear()
        self.first = self.skip = self.size = 0
        return 0
