"""Upgrade: the bytes of a connection for another protocol than HTTP (RFC 9110, 7.8)."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange

from syncless.http.errors import ClientGone

cdef enum:
    PIECE = 4096        # bytes read at a time: what a message may be compressed to is bounded by it


cdef class Upgrade:
    """Upgrade(request): begin() answers the request with 101; then read() and write() belong to the caller
    until the request ends."""

    def __init__(self, Exchange request not None):
        self.request = request

    cdef Peer peer(self):
        if self.request.peer.is_gone():
            raise ClientGone("the connection is closed")
        return self.request.peer

    def begin(self, bytes head not None) -> None:
        """Sends the 101 response, whose bytes are given; from then on the application's HTTP response is
        ignored."""
        cdef Peer peer = self.peer()
        if self.request.response.committed:
            raise RuntimeError("the response has begun already: the connection cannot be upgraded")
        self.request.response.committed = self.request.upgraded = peer.upgraded = True
        self.request.response.keep_alive = False
        self.request.response.status = "101 Switching Protocols"
        peer.send_all(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))

    def read(self) -> bytes:
        """The bytes that have come, waiting for the first one; b"" at the end. BodyTimeout after
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

    def write(self, bytes data not None) -> None:
        """Sends all of it, waiting while the client is slow. ClientGone."""
        cdef Peer peer = self.peer()
        self.request.response.body_sent += PyBytes_GET_SIZE(data)
        peer.send_all(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
