"""A lingering close: what a client still sends is read and thrown away, so that it sees the answer.

Takes a Peer; when to begin is said in connection.pyx. Fact: closing a socket with bytes unread, or before
bytes that are on their way, resets the connection. Danger: the reset destroys the answer in the client's own
buffers. A client that sends all of its body before it reads never sees it, nor does a proxy (RFC 9112, 9.6).
Decision: our half is closed; the rest follows when the client closes, falls silent, sends too slowly or has
had its time. Price: a connection without a buffer and without a tasklet for up to Limits.linger_seconds, and
the time to read. So such connections are counted, and the first to be closed for others. Guarded by
tests/wsgi/test_linger.py.
"""

from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport READ
from syncless.http.deadlines cimport LINGER_DEADLINE, DeadlineNode
from syncless.http.peer cimport Peer
from syncless.http.listener cimport Listener

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    """
    int SHUT_WR
    int shutdown(int fd, int how) nogil

cdef enum:
    WASTE = 32768           # bytes read at a time
    ROUNDS = 16             # of reading, before others get a turn


cdef int begin_lingering(Peer peer, Loop loop) except -1:
    """All is sent. Ends our half."""
    cdef Listener listener = peer.listener
    cdef DeadlineNode* oldest = listener.deadlines.lists[LINGER_DEADLINE].first
    if listener.limits.linger_connections and listener.lingering >= listener.limits.linger_connections and oldest != NULL:
        (<Peer> oldest.owner).close(loop, False)
    listener.lingering += 1                  # counted down where it is closed
    listener.deadlines.start(&peer.deadline, LINGER_DEADLINE)
    peer.heard = True
    listener.buffers.release(&peer.inbox)
    peer.inbox_start = 0
    if peer.layer is not None:
        peer.layer.goodbye(peer.fd)
        if peer.fd < 0:
            return 0                        # closed while Python code ran
    shutdown(peer.fd, SHUT_WR)
    return peer.arm(loop, READ)


cdef bint discard(Peer peer, Loop loop) except -1:
    """Throws away what has come. Whether that was the last: the client has closed, or sent more than it
    may."""
    cdef char waste[WASTE]
    cdef Py_ssize_t n
    cdef int _
    for _ in range(ROUNDS):
        n = peer.receive_raw(waste, WASTE)
        if n < 0:
            peer.arm(loop, READ)
            return False
        if n == 0 or peer.lingered + n > peer.listener.limits.linger_bytes:
            return True
        peer.lingered += n
        peer.heard = True
    loop.push(peer)                         # there may be no further event for what is here already
    return False


cdef bint may_linger(Peer peer) noexcept:
    """Its deadline has passed. Whether it may go on until the next, because it sends, and at a sane rate."""
    cdef Listener listener = peer.listener
    peer.checks += 1
    if listener.stopping or not peer.heard or peer.checks >= listener.linger_checks \
            or peer.lingered < listener.limits.body_rate * peer.checks * listener.deadlines.lists[LINGER_DEADLINE].length / 1e9:
        return False
    peer.heard = False
    listener.deadlines.start(&peer.deadline, LINGER_DEADLINE)
    return True
