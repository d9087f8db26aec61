"""Data that a protocol writes are sent by a stream socket, at once as far as the socket takes them.

Takes bytes. Keeps what is unsent (unsent.pyx), tells the protocol to pause when it is much, and ends the
stream when the protocol says so. Next to read: directions.pyx, which it extends.
"""

from asyncio import constants

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cython cimport final
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport strerror

from syncless._core.calls.portable cimport MSG_NOSIGNAL
from syncless._core.poll.poller cimport WRITE
from syncless.asyncio.directions cimport Direction, Endpoint
from syncless.asyncio.unsent cimport Unsent

from syncless.asyncio.reports import logger

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT, SHUT_WR
    ssize_t c_send "send" (int fd, const void* data, size_t size, int flags)
    int shutdown(int fd, int how)

cdef int ENOUGH_WARNINGS = constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES
cdef str WRITE_ERROR = "Fatal write error on socket transport"


@final
cdef class Outlet(Direction):
    cdef int begin(self, Endpoint endpoint, object context) except -1:
        self.bit = WRITE
        self.endpoint = self.descriptor = endpoint
        self.unsent = Unsent()
        self.set_limits(None, None)
        return self.fill(endpoint.descriptors.rounds, None, (), context)

    # -- writing ---------------------------------------------------------------------------------------------

    cdef int write(self, object data) except -1:
        cdef Py_buffer view
        cdef ssize_t n = 0
        cdef Py_ssize_t size
        cdef int error = EAGAIN
        if PyBytes_CheckExact(data):
            size = PyBytes_GET_SIZE(data)
            if self.endpoint.lost or self.ended or self.empty_waiter is not None or size == 0:
                if not self.check("write", size):
                    return 0
            if self.unsent.size == 0:
                n = c_send(self.endpoint.fd, PyBytes_AS_STRING(data), size, MSG_DONTWAIT | MSG_NOSIGNAL)
                error = errno
        elif isinstance(data, (bytes, bytearray, memoryview)):
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            try:
                size = view.len
                if not self.check("write", size):
                    return 0
                if self.unsent.size == 0:
                    n = c_send(self.endpoint.fd, view.buf, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                    error = errno
            finally:
                PyBuffer_Release(&view)
        else:
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if n == size:
            return 0
        if n < 0 and error != EAGAIN and error != EINTR:
            self.endpoint.went_wrong(OSError(error, strerror(error).decode()), WRITE_ERROR)
            return 0
        self.unsent.put(data, max(n, 0))
        self.more = False
        return self.wait_for_room()

    cdef int write_all(self, list pieces) except -1:
        """As write() for each piece, with fewer system calls."""
        cdef Py_ssize_t before = self.unsent.size
        if not self.check("writelines", sum([len(piece) for piece in pieces])):
            return 0
        for piece in pieces:
            if len(piece):
                self.unsent.put(piece, 0)
        self.more = False
        if before == 0:
            try:
                self.more = self.unsent.transmit(self.endpoint.fd)
            except OSError as error:
                self.endpoint.went_wrong(error, WRITE_ERROR)
                return 0
        return self.wait_for_room() if self.unsent.size else 0

    cdef int end(self) except -1:
        """The peer reads the end of the stream once all has been sent."""
        if not self.ended:
            self.ended = True
            if self.unsent.size == 0:
                self.shut_down()
        return 0

    cdef int shut_down(self) except -1:
        if shutdown(self.endpoint.fd, SHUT_WR) < 0:
            raise OSError(errno, strerror(errno).decode())
        return 0

    cdef int check(self, str function, Py_ssize_t size) except -1:
        """Whether there is something to send, and a peer. Raises where a write is a mistake."""
        if self.ended:
            raise RuntimeError(f"Cannot call {function}() after write_eof()")
        if self.empty_waiter is not None:
            raise RuntimeError(f"unable to {function}; sendfile is in progress")
        if self.endpoint.lost and size:
            if self.endpoint.lost >= ENOUGH_WARNINGS:
                logger.warning("socket.send() raised exception.")
            self.endpoint.lost += 1
        return size and not self.endpoint.lost

    # -- bytes that the socket does not take -----------------------------------------------------------------

    cdef int wait_for_room(self) except -1:
        """The rest is sent when the socket takes more."""
        if self.endpoint.writer is None:
            self.endpoint.writer = self
            if self.more:
                self.endpoint.due(self)
            self.endpoint.follow()
        return self.may_pause_protocol()

    cdef bint is_wanted(self) noexcept:
        return self.endpoint.writer is self

    cdef object go_on(self):
        """The socket takes more."""
        cdef Endpoint endpoint = self.endpoint
        if endpoint.writer is not self:
            return None
        self.trouble = WRITE_ERROR
        self.more = False
        if self.unsent.transmit(endpoint.fd):
            self.more = True
        self.trouble = None
        self.may_resume_protocol()                      # which may write
        if self.unsent.size == 0 and endpoint.writer is self:
            endpoint.writer = None
            self.all_sent()
        return None

    cdef int all_sent(self) except -1:
        if self.empty_waiter is not None and not self.empty_waiter.done():
            self.empty_waiter.set_result(None)
        if self.endpoint.closing:
            return self.endpoint.finish_closing()
        return self.shut_down() if self.ended else 0

    # -- how much may be unsent ------------------------------------------------------------------------------

    cdef int set_limits(self, object high, object low) except -1:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self.high, self.low = high, low
        return self.may_pause_protocol()

    cdef int may_pause_protocol(self) except -1:
        if self.unsent.size > self.high and not self.protocol_paused:
            self.protocol_paused = True
            self.tell_protocol("pause_writing")
        return 0

    cdef int may_resume_protocol(self) except -1:
        if self.protocol_paused and self.unsent.size <= self.low:
            self.protocol_paused = False
            self.tell_protocol("resume_writing")
        return 0

    cdef int tell_protocol(self, str method) except -1:
        try:
            getattr(self.endpoint.protocol, method)()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.endpoint.loop.call_exception_handler({
                "message": f"protocol.{method}() failed",
                "exception": error,
                "transport": self.endpoint,
                "protocol": self.endpoint.protocol,
            })
        return 0
