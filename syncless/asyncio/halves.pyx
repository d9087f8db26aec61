"""The two halves of a stream socket: it is read for a protocol, and the bytes that a protocol writes are
sent.

Takes the events of a socket. Gives a callback of the loop for each direction that is ready (dispatcher.pyx).
Bytes that come go straight into the protocol's own buffer if it has one. Bytes that it writes are sent at
once as far as the socket takes them, later many pieces in one system call; when many are unsent, the protocol
is told to pause. Next to read: transports.pyx.

Fact: epoll reports edges, and a report may come while the protocol's method that the last one led to is
parked. Danger: a byte that nobody reads. Decision: `more` says whether the socket may be ready; a report sets
it, and a call that has found less than it asked for takes it back. Guarded by
tests/asyncio/test_transports.py.

A read that finds less than it asked for has read all, unless the peer has said that it sends no more: then
the end is still to be read. A UNIX socket may give less than it has (where descriptors are sent along), so it
is asked by poll().
"""

from asyncio import constants, protocols

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cython cimport final
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memset, strerror

from syncless._core.calls.portable cimport MSG_NOSIGNAL
from syncless._core.loop cimport Loop
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport HANGUP, READ, WRITE
from syncless.asyncio.callbacks cimport Descriptor, ReadyHandle

from syncless.asyncio.reports import logger

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT, SHUT_WR
    struct iovec:
        void* iov_base
        size_t iov_len
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    ssize_t c_recv "recv" (int fd, void* data, size_t size, int flags)
    ssize_t c_send "send" (int fd, const void* data, size_t size, int flags)
    ssize_t sendmsg(int fd, msghdr* message, int flags)
    int shutdown(int fd, int how)

cdef enum:
    RECEIVE = 65536                 # bytes of one read
    PIECES = 64                     # in one system call
    TURN = 1 << 20                  # bytes; then others get a turn
    SENT = 256                      # parts that are kept before they are dropped at once

cdef int ENOUGH_WARNINGS = constants.LOG_THRESHOLD_FOR_CONNLOST_WRITES
cdef str WRITE_ERROR = "Fatal write error on socket transport"


cdef class Endpoint(Descriptor):
    """The part of a transport that its halves know."""

    cdef object went_wrong(self, error, message):
        """The connection ends with this error."""
        raise NotImplementedError

    cdef int finish_closing(self) except -1:
        """All has been sent, and the transport is closing."""
        raise NotImplementedError

    cdef int follow(self) except -1:
        """Events of the socket come here from now on, in the directions that have a handle."""
        cdef Loop engine = self.descriptors.dispatcher.engine
        number = self.fd
        if self.descriptors.by_number.get(number) is not self:
            self.arm()                              # the number may have been another descriptor's
            self.descriptors.by_number[number] = self
        elif engine is not None:
            engine.fds.arm(self.fd, self.awaited())
        return 0

    cdef int forget(self) except -1:
        """The socket is about to be closed."""
        cdef Loop engine = self.descriptors.dispatcher.engine
        number = self.fd
        if self.descriptors.by_number.get(number) is self:
            del self.descriptors.by_number[number]
        if engine is not None and engine.fds.entry(self.fd).watcher == <PyObject*> self:
            engine.fds.forget(self.fd)
        return 0


cdef class Half(ReadyHandle):
    """Called when the socket is ready in this direction."""

    cdef object go_on(self):
        raise NotImplementedError

    cdef bint is_wanted(self) noexcept:
        """Return whether it is to be called when the socket is ready."""
        return False

    cdef int look_again(self) except -1:
        """It was not told that there is more: may there be?"""
        return False

    cdef PyObject* invoke(self) noexcept:
        return unchecked_go_on(self)

    cdef int done(self) except -1:
        cdef Loop engine = self.dispatcher.engine
        self.under_way = False
        self.trouble = None
        if not self.is_wanted():
            return 0
        if self.more or self.look_again():
            return self.endpoint.due(self)
        if engine is not None and engine.fds.entry(self.endpoint.fd).watcher == <PyObject*> self.endpoint:
            engine.fds.arm(self.endpoint.fd, self.bit)  # for a poller whose every report is the last one
        return 0

    cdef int tell(self, object error) except -1:
        trouble, self.trouble = self.trouble, None
        self.endpoint.went_wrong(error, trouble)
        return 0


cdef object go_on(Half self):
    return self.go_on()


ctypedef PyObject* (*GoOn)(Half self) noexcept
cdef GoOn unchecked_go_on = <GoOn> go_on


# Data of a read are copied from here at once. malloc() would map and unmap memory of this size.
cdef char[RECEIVE] received

cdef object BufferedProtocol = protocols.BufferedProtocol


@final
cdef class Reader(Half):
    cdef int begin(self, Endpoint endpoint, bint glues, object context) except -1:
        self.bit = READ
        self.endpoint = self.descriptor = endpoint
        self.glues = glues
        return self.fill(endpoint.descriptors.dispatcher, None, (), context)

    cdef int give_to(self, object protocol) except -1:
        """From now on the protocol gets what is read."""
        if isinstance(protocol, BufferedProtocol):
            self.get_buffer = protocol.get_buffer
            self.callback = protocol.buffer_updated
        else:
            self.get_buffer = None
            self.callback = getattr(protocol, "data_received", None)
        return 0

    cdef int reported(self, int bits) except -1:
        """The socket is readable."""
        if bits & HANGUP:
            self.hung_up = True
        self.more = True
        return 0 if self.paused else self.endpoint.due(self)

    cdef bint is_wanted(self) noexcept:
        return self.endpoint.reader is self and not self.paused

    cdef int look_again(self) except -1:
        return not self.glues and is_ready(self.endpoint.fd, READ)

    cdef object go_on(self):
        if self.endpoint.reader is not self or self.paused:
            return None
        return self.read() if self.get_buffer is None else self.read_into_buffer()

    cdef object read(self):
        cdef ssize_t n = c_recv(self.endpoint.fd, received, RECEIVE, MSG_DONTWAIT)
        if n <= 0:
            return self.read_none(n, errno)
        self.more = self.hung_up or n == RECEIVE
        data = PyBytes_FromStringAndSize(received, n)
        if self.callback is None:
            return self.endpoint.protocol.data_received(data)   # which it does not have
        return self.callback(data)

    cdef object read_into_buffer(self):
        cdef Py_buffer view
        cdef Py_ssize_t room
        cdef ssize_t n = 0
        cdef int error = 0
        self.trouble = "Fatal error: protocol.get_buffer() call failed."
        PyObject_GetBuffer(self.get_buffer(-1), &view, PyBUF_WRITABLE)
        room = view.len
        if room:
            n = c_recv(self.endpoint.fd, view.buf, room, MSG_DONTWAIT)
            error = errno
        PyBuffer_Release(&view)
        if room == 0:
            raise RuntimeError("get_buffer() returned an empty buffer")
        if n <= 0:
            return self.read_none(n, error)
        self.more = self.hung_up or n == room
        self.trouble = "Fatal error: protocol.buffer_updated() call failed."
        return self.callback(n)

    cdef object read_none(self, ssize_t n, int error):
        """recv() has returned 0 or -1."""
        self.more = False
        if n == 0:
            self.reached_end()
        elif error == EINTR:
            self.more = True
            PyErr_CheckSignals()
        elif error != EAGAIN:
            self.trouble = "Fatal read error on socket transport"
            raise OSError(error, strerror(error).decode())
        return None

    cdef int reached_end(self) except -1:
        """The peer sends no more. The protocol may want to go on writing."""
        cdef Endpoint endpoint = self.endpoint
        if self.dispatcher.debug:
            logger.debug("%r received EOF", endpoint)
        self.trouble = "Fatal error: protocol.eof_received() call failed."
        keeps_open = endpoint.protocol.eof_received()
        if endpoint.reader is self:
            endpoint.reader = None
        if not keeps_open:
            (<object> endpoint).close()
        return 0


@final
cdef class WriteBuffer:
    def __cinit__(self):
        self.parts = []

    cdef int put(self, object data, Py_ssize_t sent) except -1:
        """Add the data, of which `sent` bytes have been sent already. A mutable object is copied."""
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
        """Send what the socket takes now. Return whether it may take more: true after a megabyte."""
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


@final
cdef class Writer(Half):
    cdef int begin(self, Endpoint endpoint, object context) except -1:
        self.bit = WRITE
        self.endpoint = self.descriptor = endpoint
        self.unsent = WriteBuffer()
        self.set_limits(None, None)
        return self.fill(endpoint.descriptors.dispatcher, None, (), context)

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
        """Whether there is something to send, and a peer. Raise where a write is a mistake."""
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
