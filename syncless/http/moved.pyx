"""Movable: an application whose requests may be another process's; and adopt(), for those that come from one.

A connection of plain HTTP/1 is a descriptor and the bytes that have been read of it. So it moves as these,
with the request whose head has come: what is missing of its body is still in the socket. A request that has
come from another process is answered here, whosever it is. Next to read: server/affinity.py, which decides,
sends and receives; native/threads.pyx, by whose way connections leave for another thread.
"""

from cpython.ref cimport Py_INCREF
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from posix.unistd cimport close as close_fd

from syncless._core.loop cimport FdEntry, Loop
from syncless.http.acceptor cimport prepare
from syncless.http.connection cimport READING, Connection
from syncless.http.exchange cimport Application, Exchange
from syncless.http.listener cimport HEAD_DEADLINE, Listener
from syncless.http.peer cimport Incoming
from syncless.http.stream cimport Stream, first_bytes
from syncless.http.wire.wire cimport head


cdef class Movable(Application):
    """Movable(application, field, choose, send)

    Before each request it calls choose(value, address, trusted, movable), with the request's field of that
    name, in lower case, or None. If that returns a number but 0, and the request is movable, it then calls
    send(number, fd, data, address, port, trusted), which has the descriptor from then on. The application
    must remember no heads.
    """
    cdef Application inner
    cdef bytes field
    cdef object choose, send
    cdef set arrived            # descriptors of requests that have come from others, and have not begun
    cdef int chosen

    def __init__(self, Application inner not None, bytes field not None, choose, send):
        self.inner, self.field, self.choose, self.send = inner, field, choose, send
        self.heads = inner.heads
        self.stays = inner.stays
        self.arrived = set()

    cdef Exchange exchange(self, const Incoming* incoming):
        cdef Stream* stream = incoming.stream
        cdef bint movable = not stream.carried and stream.layer == NULL
        cdef int chosen
        if movable and stream.fd in self.arrived:
            self.arrived.discard(stream.fd)
        else:
            chosen = self.choose(
                self.value(incoming.data, incoming.found), <object> incoming.address, incoming.trusted,
                movable)
            if chosen and movable:
                self.chosen = chosen
                return None
        return self.inner.exchange(incoming)

    cdef object value(self, const char* data, const head* found):
        cdef int i
        cdef uint32_t at
        for i in range(found.header_count):
            at = found.headers[i].name
            if found.headers[i].name_size == len(self.field) and \
                    data[at:at + found.headers[i].name_size].lower() == self.field:
                at = found.headers[i].value
                return data[at:at + found.headers[i].value_size]
        return None

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        cdef Stream* stream = incoming.stream
        cdef int fd = stream.fd
        cdef bytes data = first_bytes(stream, stream.inbox.size)
        cdef FdEntry* entry = loop.fds.entry(fd)
        if entry.armed:         # closing does not take it out of the epoll set while another process has it
            loop.poller.disarm(fd)
            entry.armed = 0
        loop.fds.forget(fd)
        stream.fd = -1
        self.send(self.chosen, fd, data, <object> incoming.address, incoming.port, incoming.trusted)
        self.heads.forget(fd)
        return 0

    def close(self) -> None:
        self.inner.close()


def adopt(Listener listener not None, Movable application not None, int fd, bytes data not None,
          str address not None, int port, bint trusted) -> None:
    """Serve a connection that another process has read these bytes of. It has the descriptor from now on."""
    cdef Loop loop = listener.loop
    cdef Connection connection
    prepare(listener)
    try:
        connection = Connection()
        loop.fds.forget(fd)
        loop.fds.entry(fd).watcher = <PyObject*> connection
    except BaseException:
        close_fd(fd)
        raise
    connection.listener = listener
    connection.stream.fd = fd
    connection.stream.readable = True
    connection.remote_addr, connection.remote_port, connection.trusted = address, port, trusted
    Py_INCREF(connection)                       # given back by close()
    listener.connections += 1
    try:
        if connection.admit():
            application.arrived.add(fd)
            connection.move_to(READING)
            listener.deadlines.start(&connection.deadline, HEAD_DEADLINE, connection)
            listener.buffers.hold(&connection.stream.inbox, data, len(data))
            loop.push(connection)
            return
    except BaseException:
        connection.close(loop, True)
        raise
    connection.close(loop, False)
