"""The start of a connection, before HTTP: a PROXY header from a trusted peer, then a TLS handshake, or
neither.

Takes a Stream. Whether a TLS port is spoken to plainly is told by the first byte, so that a browser that
speaks HTTP to it gets an answer that says so.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from syncless.http.buffers cimport Buffers
from syncless.http.stream cimport Stream, consume_inbox, first_bytes, receive_little
from syncless.http.tls cimport FAILED, READY, WANTS_READ, TlsLayer

from syncless.http.proxyheader import parse_proxy_header

cdef enum:
    HANDSHAKE_RECORD = 0x16     # RFC 8446, 5.1: the first byte of a ClientHello


cdef object read_proxy_header(Stream* stream, Buffers buffers, int* outcome):
    """READY and the header, or None: WANTS_READ while it has not come whole, FAILED if it never will."""
    cdef Py_ssize_t got
    outcome[0] = FAILED
    while True:
        if stream.inbox.size:
            try:
                found = parse_proxy_header(first_bytes(stream, stream.inbox.size))
            except ValueError:
                return None
            if found is not None:
                consume_inbox(stream, buffers, found.size)
                outcome[0] = READY
                return found
        got = receive_little(stream, buffers)
        if got <= 0:
            outcome[0] = WANTS_READ if got < 0 else FAILED
            return None


cdef int begin_tls(Stream* stream, Buffers buffers, object contexts, bint plain_too) except -2:
    """Goes on with the handshake as far as it can: READY for HTTP, WANTS_READ, WANTS_WRITE, FAILED, or
    NOT_TLS where it should be. `contexts` gives the SSLContext for a new connection."""
    cdef TlsLayer layer
    cdef Py_ssize_t got
    cdef char* data
    if stream.layer == NULL:
        while stream.inbox.size == 0:
            got = receive_little(stream, buffers)
            if got <= 0:
                return WANTS_READ if got < 0 else FAILED
        if stream.inbox.data[stream.inbox_start] != HANDSHAKE_RECORD:
            return READY if plain_too else NOT_TLS
        layer = TlsLayer(contexts())
        if stream.fd < 0 or stream.layer != NULL:       # Python code ran
            return FAILED
        data = stream.inbox.data + stream.inbox_start
        layer.feed(data, stream.inbox.size - stream.inbox_start)
        Py_INCREF(layer)
        stream.layer = <PyObject*> layer
        consume_inbox(stream, buffers, stream.inbox.size)
    layer = <TlsLayer> stream.layer
    return layer.handshake(stream.fd)
