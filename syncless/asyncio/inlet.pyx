"""A stream socket is read for a protocol.

Takes the socket's descriptor. Gives the protocol what comes, straight into its own buffer if it has one,
and the end of it. Next to read: directions.pyx, which it extends.

A read that finds less than it asked for has read all, unless the peer has said that it sends no more: then
the end is still to be read. A UNIX socket may give less than it has (where descriptors are sent along), so it
is asked by poll().
"""

from asyncio import protocols

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport final
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport strerror

from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport HANGUP, READ
from syncless.asyncio.directions cimport Direction, Endpoint

from syncless.asyncio.reports import logger

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "<sys/socket.h>" nogil:
    int MSG_DONTWAIT
    ssize_t c_recv "recv" (int fd, void* data, size_t size, int flags)

cdef enum:
    RECEIVE = 65536                 # bytes of one read

# Data of a read are copied from here at once. malloc() would map and unmap memory of this size.
cdef char[RECEIVE] received

cdef object BufferedProtocol = protocols.BufferedProtocol


@final
cdef class Inlet(Direction):
    cdef int begin(self, Endpoint endpoint, bint glues, object context) except -1:
        self.bit = READ
        self.endpoint = self.descriptor = endpoint
        self.glues = glues
        return self.fill(endpoint.descriptors.rounds, None, (), context)

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
        if self.rounds.debug:
            logger.debug("%r received EOF", endpoint)
        self.trouble = "Fatal error: protocol.eof_received() call failed."
        keeps_open = endpoint.protocol.eof_received()
        if endpoint.reader is self:
            endpoint.reader = None
        if not keeps_open:
            (<object> endpoint).close()
        return 0
