"""A lingering close: bytes that a client still sends are discarded, so that the client sees the answer.

connection.pyx decides when it begins. Fact: closing a socket with bytes unread, or before bytes that are on
their way, resets the connection. Danger: the reset destroys the answer in the client's own buffers. A client
that sends all of its body before it reads never sees it, nor does a proxy (RFC 9112, 9.6). Decision: our half
is closed; the rest follows when the client closes, falls silent, sends too slowly or has had its time. Price:
a connection without a buffer and without a tasklet for up to Limits.linger_seconds, and the time to read. So
such connections are counted, and the first to be closed for others. Guarded by tests/wsgi/test_linger.py.
"""

from syncless.http.deadlines cimport LINGER_DEADLINE
from syncless.http.listener cimport Listener
from syncless.http.stream cimport Stream, receive_raw
from syncless.http.wire cimport ROUNDS, WASTE, pace_may_linger


cdef Discarded discard(Stream* stream, Linger* linger, Py_ssize_t most) noexcept:
    """Throws away what has come. `most`: bytes that may come in all."""
    cdef char waste[WASTE]
    cdef Py_ssize_t n
    cdef int _
    for _ in range(ROUNDS):
        n = receive_raw(stream, waste, WASTE)
        if n < 0:
            return ALL_FOR_NOW
        if n == 0 or linger.bytes + n > most:
            return THE_LAST
        linger.bytes += n
        linger.heard = True
    return ENOUGH_FOR_NOW


cdef bint too_many_linger(Listener listener) noexcept:
    """Whether the one that has lingered for longest must be closed for another one."""
    return (
        listener.limits.linger_connections and listener.lingering >= listener.limits.linger_connections
        and listener.deadlines.first(LINGER_DEADLINE) != NULL)


cdef bint may_linger(Linger* linger, Listener listener) noexcept:
    """Whether it may go on until the next look, after the time of LINGER_DEADLINE."""
    cdef bint heard = linger.heard
    linger.looks += 1
    linger.heard = False
    return not listener.stopping and pace_may_linger(linger.looks, heard, linger.bytes, &listener.limits)
