"""Inbox: takes what the threads of native handlers send to Python, in the server's loop.

A connection comes with the bytes of a request that the application is to answer, and perhaps of more
requests. It is a Connection like any other from then on, until a request for a native handler comes on it
(Shared).

Shared is an application and native handlers, which have a connection in turn. The connection of a request for
a native handler goes back to its thread, with all bytes that have come. A request that a thread has handed
over is the application's, whatever its route: a handler may have passed it on.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from posix.unistd cimport close as os_close, read

from syncless._core.loop cimport Loop, Watcher
from syncless._core.scheduler cimport Scheduler
from syncless.http.acceptor cimport evict_one, prepare
from syncless.http.connection cimport READING, Connection
from syncless.http.exchange cimport Application, Exchange
from syncless.http.listener cimport HEAD_DEADLINE, Listener
from syncless.http.peer cimport Incoming
from syncless.http.stream cimport Stream
from syncless.native.threads cimport (
    CONNECTION_MESSAGE, EVICT_MESSAGE, FAULT_MESSAGE, LOG_MESSAGE, Threads, address, atomic_fetch_add,
    message, show,
)

from syncless._core.threadloop import current_loop


cdef class Shared(Application):
    """Shared(application, threads), of the next socket on which the threads accept."""
    cdef Application inner
    cdef Threads threads
    cdef int listener           # index of that socket

    def __init__(self, Application inner not None, Threads threads not None):
        self.inner = inner
        self.threads = threads
        self.listener = threads.core.listener_count
        self.heads = inner.heads

    cdef Exchange exchange(self, const Incoming* incoming):
        if self.threads.wants(incoming.stream.fd, incoming.data, incoming.found):
            return None
        return self.inner.exchange(incoming)

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return self.inner.take_back(exchange, fd)

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        cdef Stream* stream = incoming.stream
        cdef int fd = stream.fd
        self.heads.forget(fd)                   # as closing would
        loop.fds.entry(fd).watcher = NULL
        loop.fds.disarm_after_wait(fd)          # nobody else waits for it
        self.threads.send(
            fd % self.threads.core.thread_count, fd, self.listener, <str> incoming.address, incoming.port,
            stream.inbox.data + stream.inbox_start, stream.inbox.size - stream.inbox_start)
        stream.fd = -1                          # a thread closes it
        return 0

    def close(self) -> None:
        self.inner.close()


cdef extern from "server.h" nogil:
    struct record:
        uint32_t size
        uint16_t status
        uint8_t refused, closes
        address address
        int64_t body, ns


cdef Connection opened(Loop loop, Threads threads, Listener listener, message* sent):
    """The connection of a message, which has its descriptor from now on, unless this fails."""
    cdef Connection connection = Connection()
    connection.listener = listener
    connection.stream.fd = sent.fd
    connection.stream.readable = True
    connection.remote_addr = show(&sent.address)
    connection.remote_port = sent.address.port if connection.remote_addr else -1
    if listener.trusted is not None:
        connection.trusted = listener.trusted(connection.remote_addr)
    loop.fds.forget(sent.fd)
    loop.fds.entry(sent.fd).watcher = <PyObject*> connection
    Py_INCREF(connection)                       # given back by close()
    threads.pythons(sent.fd)
    listener.connections += 1
    return connection


cdef int adopt(Loop loop, Threads threads, Listener listener, message* sent) except -1:
    """The connection is Python's, and its first request is, too."""
    cdef Connection connection
    try:
        connection = opened(loop, threads, listener, sent)
    except BaseException:
        os_close(sent.fd)
        raise
    try:
        if not connection.admit():
            return connection.close(loop, False)
        connection.move_to(READING)
        listener.deadlines.start(&connection.deadline, HEAD_DEADLINE, connection)
        listener.buffers.hold(&connection.stream.inbox, sent.data, sent.size)
        return loop.push(connection)            # an application that waits must not hold up the rest
    except BaseException:
        connection.close(loop, True)
        raise


cdef class Inbox(Watcher):
    """Inbox(threads, notice, fault, record): `notice` is called with an error number when threads cannot
    accept, `fault` with a sentence when a handler fails, `record` with the parts of a line of the access
    log."""
    cdef Threads threads
    cdef object notice, fault, record, loop
    cdef list listeners
    cdef int64_t taken          # connections, since the start
    cdef int64_t counted        # of them, those that the threads still count
    cdef bint closed

    def __init__(self, Threads threads not None, notice, fault, record):
        cdef Loop loop = current_loop()
        self.threads = threads
        self.notice = notice
        self.fault = fault
        self.record = record
        self.loop = loop
        self.listeners = []
        loop.fds.forget(threads.core.python.event)
        loop.fds.watch(threads.core.python.event, self)

    def listen(self, Listener listener not None) -> None:
        """Connections of the next socket become this listener's."""
        prepare(listener)
        listener.acceptor = self
        self.listeners.append(listener)

    cdef int on_ready(self, Loop loop, int bits) except -1:
        cdef uint64_t count
        if self.closed:
            return 0
        read(self.threads.core.python.event, &count, sizeof(count))
        return self.take(loop)

    cdef int forked(self, Loop loop) except -1:
        """The threads and their connections are the parent's."""
        self.closed = True
        self.threads.leave_to_parent()
        return 0

    cdef int take(self, Loop loop) except -1:
        cdef message* sent = self.threads.take_messages()
        cdef message* following
        while sent != NULL:
            following = sent.next
            try:
                if sent.kind == CONNECTION_MESSAGE:
                    self.taken += 1
                    self.counted += 1
                    adopt(loop, self.threads, <Listener> self.listeners[sent.address.listener], sent)
                elif sent.kind == LOG_MESSAGE:
                    self.log(sent)
                elif sent.kind == EVICT_MESSAGE:
                    self.offer_room(loop)
                elif sent.kind == FAULT_MESSAGE:
                    self.fault(sent.data[:sent.size].decode(errors="replace"))
                else:
                    self.notice(sent.fd)
            except BaseException as error:
                loop.report("taking a message from native handlers", error)
                self.turn(loop)                 # a connection that failed leaves its place
            free(sent)
            sent = following
        return 0

    cdef int offer_room(self, Loop loop) except -1:
        """A client waits to be accepted, and the threads have no connection to close for it."""
        self.threads.core.eviction_wanted = False
        for listener in self.listeners:
            if evict_one(<Listener> listener):
                self.turn(loop)
                return self.threads.wake_all()
        return 0

    cdef int log(self, message* sent) except -1:
        """A block of records."""
        cdef record one
        cdef size_t at = 0
        atomic_fetch_add(&self.threads.core.log_held, -<int64_t> sent.size)
        while at < sent.size:
            memcpy(&one, sent.data + at, sizeof(one))
            at += sizeof(one)
            self.record(
                one.status, one.refused, one.closes, show(&one.address), one.address.port, one.body, one.ns,
                PyBytes_FromStringAndSize(sent.data + at, one.size))
            at += one.size
        return 0

    cdef int turn(self, Scheduler loop) except -1:
        """Connections of Python have been closed: there is room for others (Listener.acceptor)."""
        cdef int64_t left = sum([listener.connections for listener in self.listeners])
        atomic_fetch_add(&self.threads.core.connections, left - self.counted)
        self.counted = left
        return 0

    @property
    def unread(self) -> int:
        """Connections that are on their way to Python."""
        return self.threads.handed_over - self.taken

    def take_rest(self) -> None:
        """Takes the messages that have been sent up to now."""
        self.take(self.loop)

    def close(self) -> None:
        cdef Loop loop = self.loop
        if not self.closed:
            self.closed = True
            self.take(loop)
            for listener in self.listeners:
                (<Listener> listener).acceptor = None
            (<Loop> loop).fds.entry(self.threads.core.python.event).watcher = NULL
            loop.fds.disarm_after_wait(self.threads.core.python.event)
