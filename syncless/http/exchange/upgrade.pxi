"""Upgrade: the bytes of a connection for another protocol than HTTP (RFC 9110, 7.8)."""


cdef class Upgrade:
    """Upgrade(exchange): begin() answers the request with 101; then read() and write() belong to the caller
    until the request ends."""

    def __init__(self, Exchange exchange not None):
        self.exchange = exchange

    cdef Peer peer(self):
        if self.exchange.peer.is_gone():
            raise ConnectionLost("the connection is closed")
        return self.exchange.peer

    def begin(self, bytes head not None, handler, tuple expected=()) -> None:
        """Send the 101 response, whose bytes are given; from then on the application's HTTP response is
        ignored. `handler.end(failure)` is called when the application has returned or raised; exceptions of
        the types `expected` are not logged then."""
        cdef Peer peer = self.peer()
        self.exchange.interruptible = False     # its end is among the bytes, behind the last messages
        if self.exchange.response.committed:
            raise RuntimeError("the connection cannot be upgraded: the response has already begun")
        self.exchange.response.committed = self.exchange.upgraded = peer.upgraded = peer.answered = True
        self.exchange.listener.admission.exempt_now(&self.exchange.rank)
        self.exchange.response.keep_alive = False
        self.exchange.response.status = "101 Switching Protocols"
        self.handler = handler
        self.expected = (ClientGone, TaskletExit, *expected)
        peer.send_all(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))

    cpdef bytes read(self):
        """Return the bytes that have come, waiting for the first one; b"" at the end. BodyTimeout after
        Limits.ping_seconds without one."""
        cdef Peer peer = self.peer()
        cdef char* data
        cdef Py_ssize_t n = peer.available(&data)
        if n == 0:
            return b""
        n = min(n, <Py_ssize_t> PIECE)
        piece = PyBytes_FromStringAndSize(data, n)
        peer.consume(n)
        return piece

    cdef bytes read_now(self):
        """As read(), but nothing waits: None where nothing has come."""
        cdef Peer peer = self.exchange.peer
        cdef Watcher _owner = peer.owner        # keeps the stream
        return b"" if peer.is_gone() else read_now(peer.stream, peer.listener.buffers)

    cdef bytes read_rest(self, Py_ssize_t most):
        """At most `most` bytes behind those that read() gave, if they have come: nothing waits, and b"" is no
        end."""
        cdef Peer peer = self.exchange.peer
        cdef Watcher _owner = peer.owner        # keeps the stream
        cdef Stream* stream = peer.stream
        cdef bytes piece
        cdef Py_ssize_t n
        if peer.is_gone() or stream.inbox.size or not is_receivable(stream):
            return b""
        piece = PyBytes_FromStringAndSize(NULL, most)
        n = receive(stream, peer.listener.buffers, PyBytes_AS_STRING(piece), most)
        if n <= 0:                              # its end is met again by read()
            return b""
        peer.received += n
        return piece if n == most else piece[:n]

    def receive(self, Py_ssize_t most) -> bytes:
        """Return the same as read(), at most `most` bytes; the rest stays with the operating system."""
        cdef Peer peer = self.peer()
        cdef bytes piece = PyBytes_FromStringAndSize(NULL, most)
        cdef Py_ssize_t n = -1
        while n < 0 and most:
            n = peer.direct(PyBytes_AS_STRING(piece), most)
        return piece[:max(n, 0)]

    def end_input(self) -> None:
        """Resume the tasklet that waits in receive(), where a descriptor's shutdown() cannot do that."""
        cdef Peer peer = self.exchange.peer
        if peer.stream != NULL and peer.stream.carried:
            peer.stream.ended = peer.stream.peer_shutdown = True
            wake_all(&(<Carried> peer.owner).readers)

    def write(self, bytes data not None) -> None:
        """Send all of it, waiting while the client is slow. ClientGone. If this is interrupted, part of it
        has been sent."""
        cdef Peer peer = self.peer()
        self.exchange.response.body_sent += PyBytes_GET_SIZE(data)
        peer.send_all(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    cdef bint is_behind(self) noexcept:
        """Return whether something was left to the server, and is not sent yet."""
        return self.exchange.peer.pending() > 0

    cdef int make_room(self) except -1:
        """Wait until that is sent."""
        return self.peer().send_all(NULL, 0)

    cdef int write_whole(self, bytes data) except -1:
        """Do as write(), but if this is interrupted the server sends the rest."""
        cdef Peer peer = self.peer()
        self.exchange.response.body_sent += PyBytes_GET_SIZE(data)
        return peer.send_whole(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))

    def expects(self, failure) -> bool:
        """Return whether the application may end so: with None, or one of these exceptions."""
        return failure is None or isinstance(failure, self.expected)

    def tell_stop(self) -> None:
        """The server stops: the protocol's handler is told, if it wants to be."""
        tell_stop = getattr(self.handler, "tell_stop", None)
        if tell_stop is not None:
            spawn(tell_stop)

    def end(self, failure) -> None:
        """The server: the application has returned or raised."""
        handler, self.handler = self.handler, None
        handler.end(failure)

    @property
    def fd(self) -> int:
        """The connection's descriptor; -1 when it is closed."""
        return -1 if self.exchange.peer.is_gone() else self.exchange.peer.stream.fd
