"""What comes on a connection before HTTP: a PROXY header from a trusted peer, then a TLS handshake, or
neither.

Whether the port is plain or TLS is told by the first byte, so that a browser that speaks HTTP to a TLS port
gets an answer that says so.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize

from syncless.http.peer cimport Peer
from syncless.http.listener cimport Listener
from syncless.http.tls cimport FAILED, READY, WANTS_READ, TlsLayer

from syncless.http.proxyheader import parse_proxy_header

cdef enum:
    HANDSHAKE_RECORD = 0x16     # RFC 8446, 5.1: the first byte of a ClientHello


cdef int greet_peer(Peer peer) except -2:
    """Goes on as far as it can: READY for HTTP, WANTS_READ, WANTS_WRITE, FAILED, or NOT_TLS where it should
    be."""
    cdef Listener listener = peer.listener
    cdef Py_ssize_t got
    cdef char* data
    while True:
        if peer.layer is not None:
            return peer.layer.handshake(peer.fd)
        if listener.certificates is None and not peer.expects_proxy_header:
            return READY
        if peer.inbox.size:
            data = peer.inbox.data + peer.inbox_start
            if not peer.expects_proxy_header:
                if data[0] != HANDSHAKE_RECORD:
                    return READY if listener.plain_http else NOT_TLS
                peer.layer = TlsLayer(listener.certificates())
                peer.layer.feed(data, peer.inbox.size - peer.inbox_start)
                peer.consume(peer.inbox.size)
                continue
            try:
                found = parse_proxy_header(PyBytes_FromStringAndSize(data, peer.inbox.size - peer.inbox_start))
            except ValueError:
                return FAILED
            if found is not None:
                peer.expects_proxy_header = False
                if found.source is not None:
                    peer.remote_addr, peer.remote_port = found.source
                    peer.trusted = listener.trusted(peer.remote_addr)
                peer.consume(found.size)
                if not peer.admit():
                    return FAILED
                continue
        got = peer.receive_little()
        if got < 0:
            return WANTS_READ
        if got == 0:
            return FAILED
