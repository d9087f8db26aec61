"""Acceptor: new connections of a listening socket, and what is done when the system is short of descriptors.

Takes a Listener, whose lists of deadlines have its connections in the order in which their times began. The
life of a connection is connection.pyx. Beside it are the files of acceptor/: which connections are closed for
others, or because the server stops, and how one moves to the loop of another thread.
"""

import os

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.errno cimport (
    EAGAIN, ECONNABORTED, EINTR, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM, EPROTO, errno,
)
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from posix.time cimport nanosleep, timespec
from posix.unistd cimport close as close_fd
from posix.unistd cimport write as os_write

from syncless._core.calls.portable cimport accept_connection  # no-cython-lint: the C below calls it
from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport FdEntry, Loop, Watcher
from syncless._core.poll.now cimport is_ready
from syncless._core.poll.poller cimport READ, PollEvent
from syncless._core.scheduler cimport Scheduler
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport timer_init
from syncless.http.connection cimport CARRYING, CLOSED, GREETING, READING, RUNNING, Connection
from syncless.http.exchange cimport Application, Session
from syncless.http.listener cimport (
    AT_CONNECTIONS, GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE,
    DeadlineNode, Deadlines, Listener, flush_t, next_of,
)
from syncless.http.peer cimport Carried
from syncless.http.stream cimport Buffer, Buffers, Stream, TlsLayer, has_input, has_unsent
from syncless.http.wire.wire cimport ACCEPT_BATCH, ASKED, JUST_COME_NS, LAST_BATCHES, RETRY_NS

from syncless._core.exits import TaskletExit

include "acceptor/evicting.pxi"
include "acceptor/stopping.pxi"


cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>

    /* Accepts, with the peer's address as text. IPv4 inside IPv6 shows as IPv4. port -1: the family has none.
       The text is left empty where the address is IPv4 and the same as `*last`, which it becomes. */
    static int syncless_accept(int listener, char *text, int *port, unsigned *last) {
        union {
            struct sockaddr any;
            struct sockaddr_in v4;
            struct sockaddr_in6 v6;
            struct sockaddr_storage room;
        } a;
        socklen_t length = sizeof a;
        int fd = syncless_accept_connection(listener, &a.any, &length, 0);
        text[0] = 0;
        *port = -1;
        if (fd < 0)
            return fd;
        if (a.any.sa_family == AF_INET && a.v4.sin_addr.s_addr == *last) {
            *port = ntohs(a.v4.sin_port);
            return fd;
        }
        *last = a.any.sa_family == AF_INET ? a.v4.sin_addr.s_addr : 0;
        if (a.any.sa_family == AF_INET) {
            inet_ntop(AF_INET, &a.v4.sin_addr, text, INET6_ADDRSTRLEN);
            *port = ntohs(a.v4.sin_port);
        } else if (a.any.sa_family == AF_INET6) {
            if (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr))
                inet_ntop(AF_INET, a.v6.sin6_addr.s6_addr + 12, text, INET6_ADDRSTRLEN);
            else
                inet_ntop(AF_INET6, &a.v6.sin6_addr, text, INET6_ADDRSTRLEN);
            *port = ntohs(a.v6.sin6_port);
        }
        return fd;
    }
    """
    enum: INET6_ADDRSTRLEN
    int syncless_accept(int listener, char* text, int* port, unsigned* last) nogil


cdef void retry_accept(void* owner) noexcept:
    acceptor = <Acceptor> owner
    try:
        acceptor.listener.loop.push(acceptor)
    except MemoryError:
        acceptor.loop.timers.add(&acceptor.retry, monotonic_ns() + RETRY_NS)


cdef int begin(Loop loop, Listener listener, Connection connection) except -1:
    """Its first deadline, and its first turn, unless its client has too many connections."""
    cdef int kind = GREETING_DEADLINE
    if listener.trusted is not None:
        connection.trusted = listener.trusted(connection.remote_addr)
        connection.expects_proxy_header = connection.trusted and listener.proxy_protocol
    if not connection.admit():
        return connection.close(loop, False)
    if listener.certificates is None and not connection.expects_proxy_header:
        connection.move_to(READING)
        kind = HEAD_DEADLINE
    listener.deadlines.start(&connection.deadline, kind, connection)
    return loop.push(connection)


cdef int expire(Loop loop, object owner, int kind) except -1:
    if type(owner) is Connection:
        return (<Connection> owner).expired(loop, kind)
    return (<Carried> owner).expired(loop, kind)


cdef int flush(Loop loop, object owner) except -1:
    return (<Connection> owner).flush(loop)


cdef int prepare(Listener listener) except -1:
    """Before it has its first connection."""
    listener.deadlines.expire = expire
    listener.flusher.flush = <flush_t> flush
    return 0


@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Acceptor(Watcher):
    """Accepts the connections of one listening socket, which its Server owns. A server that is dropped
    without being stopped takes it along."""

    def __cinit__(self):
        timer_init(&self.retry, retry_accept, <void*> self)
        self.fd = -1

    def __dealloc__(self):
        if self.loop is not None:
            self.loop.timers.remove(&self.retry)
            if self.fd >= 0 and self.loop.fds.entry(self.fd).watcher == <PyObject*> self:
                self.loop.fds.forget(self.fd)

    def __init__(self, Listener listener not None, int fd):
        self.listener = listener
        self.loop = listener.loop
        self.fd = fd
        os.set_blocking(fd, False)
        listener.loop.fds.watch(fd, self)
        listener.acceptor = self
        prepare(listener)

    cdef int on_ready(self, Loop loop, int bits) except -1:
        return self.accept(loop)

    cdef int turn(self, Scheduler loop) except -1:
        return self.accept(<Loop> loop)

    cdef int loop_ended(self, Loop loop) except -1:
        self.close()
        return 0

    cdef int accept(self, Loop loop) except -1:
        """Accept what has come, up to a batch."""
        cdef Listener listener = self.listener
        cdef char text[INET6_ADDRSTRLEN]
        cdef bint full, evicted
        cdef int fd, port, error, _, limit = 0 if self.takes_all else listener.limits.connections
        if self.closed or self.paused:
            return 0
        for _ in range(ACCEPT_BATCH):
            full = limit and listener.all_connections() >= limit
            if full and is_ready(self.fd, READ):
                evicted = evict_one(listener)
                listener.reached.note(AT_CONNECTIONS, evicted)
                if not evicted:
                    listener.starved = True
                    return 0    # the rest waits in the backlog; one that closes or falls idle pushes us
            fd = syncless_accept(self.fd, text, &port, &self.last)
            if fd < 0:
                error = errno
                if error == EINTR or error == ECONNABORTED or error == EPROTO or error == EPERM:
                    continue
                if error == EINVAL:
                    return 0                    # the master has shut the socket down: nobody comes any more
                if error == EAGAIN or not is_ready(self.fd, READ):
                    loop.fds.arm(self.fd, READ)  # without a descriptor left it fails where nobody waits, too
                elif self.shortage(loop, error):
                    continue
                return 0
            try:
                self.open(loop, fd, text, port)
            except MemoryError:
                self.shortage(loop, ENOMEM)
                return 0
        loop.push(self)
        return 0

    cdef int open(self, Loop loop, int fd, const char* address, int port) except -1:
        """Begin the life of a connection. It gets its turn afterwards: an application that waits must not
        block the rest of the backlog. If this raises, the descriptor is closed."""
        cdef Listener listener = self.listener
        cdef Connection connection
        try:
            if self.last_text is None or self.last == 0 or address[0] != 0:
                self.last_text = address.decode()
            connection = Connection()
            loop.fds.forget(fd)
            loop.fds.entry(fd).watcher = <PyObject*> connection
        except BaseException:
            self.last = 0                       # its text may be missing
            close_fd(fd)
            raise
        connection.listener = listener
        connection.stream.fd = fd
        connection.stream.readable = True
        connection.remote_addr = self.last_text
        connection.remote_port = port
        Py_INCREF(connection)                   # given back by close()
        listener.connections += 1
        listener.accepted += 1
        try:
            return begin(loop, listener, connection)
        except BaseException:
            connection.close(loop, False)
            raise

    cdef bint shortage(self, Loop loop, int error) except -1:
        """No descriptors or memory: another connection makes room. Whether to go on at once, not a little
        later."""
        cdef Listener listener = self.listener
        if error != EMFILE and error != ENFILE and error != ENOBUFS and error != ENOMEM:
            loop.report("accept", OSError(error, os.strerror(error)))
            return False
        if self.retry.index < 0:
            loop.timers.add(&self.retry, monotonic_ns() + RETRY_NS)
        listener.complain(
            f"cannot accept connections: {os.strerror(error)}; closing idle ones. "
            "Raise ulimit -n, or set the limit `connections`")
        if (evict_one(listener) or self.evict_elsewhere(loop)) and error == EMFILE:
            loop.timers.remove(&self.retry)
            return True                         # a descriptor of this process is free now
        return False

    cdef bint evict_elsewhere(self, Loop loop) except -1:
        """The descriptors may be those of connections that other listening sockets have accepted."""
        for watcher in loop.fds.watchers():
            if isinstance(watcher, Acceptor) and evict_one((<Acceptor> watcher).listener):
                return True
        return False

    def pause(self) -> None:
        """Leave new connections to the other processes that have the socket."""
        self.paused = True

    def rest(self) -> None:
        """As pause(), and not even told of them. From any thread, by the rule above."""
        cdef FdEntry* entry = self.loop.fds.entry(self.fd)
        self.paused = True
        if entry.armed:
            self.loop.poller.disarm(self.fd)
            entry.armed = 0

    def resume(self) -> None:
        """Accept again what has come."""
        self.paused = False
        if not self.closed:
            self.listener.loop.push(self)

    def accept_rest(self) -> None:
        """Accept all connections that wait, beyond Limits.connections, too: nobody else would answer
        them."""
        cdef long long before = -1
        cdef int rounds = 0
        self.takes_all = True
        while self.listener.accepted != before and rounds < LAST_BATCHES:
            before = self.listener.accepted
            self.accept(self.listener.loop)
            rounds += 1

    def close(self) -> None:
        """Accept no more. The socket is the caller's to close."""
        if not self.closed:
            self.closed = True
            self.listener.loop.timers.remove(&self.retry)
            self.listener.loop.fds.forget(self.fd)
            self.listener.acceptor = None


include "acceptor/moving.pxi"
include "acceptor/watch.pxi"
