"""Stream: the bytes of one connection, from and to its descriptor, plain or through TLS.

Takes a Stream, which is a struct in its owner, and the Buffers that give it memory. Received bytes that are
not used at once wait in the inbox. To be sent are the bytes in `out` and at most one large bytes object
behind them. Nothing here waits: a function that cannot go on says so. Knows nothing of HTTP, of deadlines or
of tasklets. Where Python code may run (in the TLS layer) the stream may be closed meanwhile, so that is
looked at afterwards.

Next to read: connection.pyx, which owns it, and peer.pyx, by which a request waits for it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
cimport cython
from libc.errno cimport EAGAIN, EINTR, EPIPE, errno
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove
from posix.unistd cimport close as close_fd

from syncless._core.calls.portable cimport MSG_NOSIGNAL  # no-cython-lint: C below has it
from syncless._core.loop cimport Loop
from syncless.http.wire.wire cimport LITTLE, RECEIVE

include "stream/buffers.pxi"
include "stream/tls.pxi"


cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/uio.h>

    /* Head and body in one system call. */
    static ssize_t syncless_send2(int fd, const char *a, size_t na, const char *b, size_t nb) {
        struct iovec parts[2];
        struct msghdr message;
        if (nb == 0)
            return send(fd, a, na, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (na == 0)
            return send(fd, b, nb, MSG_DONTWAIT | MSG_NOSIGNAL);
        parts[0].iov_base = (void *)a;
        parts[0].iov_len = na;
        parts[1].iov_base = (void *)b;
        parts[1].iov_len = nb;
        memset(&message, 0, sizeof message);
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }

    static void syncless_reset(int fd) {
        struct linger hard = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    """
    int MSG_PEEK, SHUT_WR
    int shutdown(int fd, int how) nogil
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t send2 "syncless_send2" (int fd, const char* a, size_t na, const char* b, size_t nb) nogil
    void make_reset "syncless_reset" (int fd) nogil

cdef enum:
    INBOX = 8192        # bytes that a body may have in the inbox


# -- bytes that come -----------------------------------------------------------------------------------------


cdef Py_ssize_t receive(Stream* stream, Buffers buffers, char* into, size_t room) except -2:
    """Return bytes received; 0 when the client has closed or failed; -1 when nothing is there now."""
    cdef TlsLayer layer
    cdef Py_ssize_t n
    if stream.layer == NULL:
        n = receive_raw(stream, into, room)
        if n > 0:
            buffers.received += n
        return n
    if stream.ended:
        return 0
    layer = <TlsLayer> stream.layer
    n = layer.receive(stream.fd, into, room, stream.peer_shutdown)
    if stream.fd < 0:                           # closed while Python code ran; the inbox was left for `into`
        buffers.release(&stream.inbox)
        n = 0
    if n == 0:
        stream.ended = True
    elif n < 0:
        stream.readable = stream.peer_shutdown = False
    else:
        buffers.received += n
    return n


cdef Py_ssize_t receive_raw(Stream* stream, char* into, size_t room) noexcept:
    """As receive(), of the bytes on the wire."""
    cdef Py_ssize_t n
    if stream.ended:
        return 0
    while True:
        n = recv(stream.fd, into, room, MSG_DONTWAIT)
        if n > 0:
            if n < <Py_ssize_t> room and not stream.peer_shutdown:
                stream.readable = False         # drained; the next byte makes an event
            return n
        if n < 0 and errno == EINTR:
            continue
        if n < 0 and errno == EAGAIN:
            stream.readable = stream.peer_shutdown = False
            return -1
        stream.ended = True
        return 0


cdef Py_ssize_t receive_more(Stream* stream, Buffers buffers) except -2:
    """As receive(), behind what is in the inbox already, which gets room for a body."""
    cdef Py_ssize_t n
    if not is_receivable(stream) or is_at_work(stream):
        return -1
    if stream.inbox_start:
        compact(stream, buffers)
    if stream.inbox.room - stream.inbox.size < 1024:
        buffers.reserve(&stream.inbox, INBOX)
    n = receive(stream, buffers, stream.inbox.data + stream.inbox.size, stream.inbox.room - stream.inbox.size)
    if n > 0:
        stream.inbox.size += <uint32_t> n
    elif stream.inbox.size == 0:
        buffers.release(&stream.inbox)
    return n


cdef bytes read_now(Stream* stream, Buffers buffers):
    """Return bytes that have come, at most PIECE, b"" at the end; None: there are none now."""
    cdef char piece[PIECE]
    cdef Py_ssize_t n = stream.inbox.size - stream.inbox_start
    cdef bytes data
    if n:
        n = min(n, <Py_ssize_t> PIECE)
        data = PyBytes_FromStringAndSize(stream.inbox.data + stream.inbox_start, n)
        consume_inbox(stream, buffers, n)
        return data
    n = receive(stream, buffers, piece, PIECE) if is_receivable(stream) else -1
    return None if n < 0 else PyBytes_FromStringAndSize(piece, n)


cdef Py_ssize_t receive_little(Stream* stream, Buffers buffers) except -2:
    """Return the same with no more room than the bytes need: a half-sent head may stay for long."""
    cdef char* borrowed = buffers.scratch
    cdef Py_ssize_t n
    if borrowed == NULL:                        # a finaliser switched while another connection had it
        return receive_more(stream, buffers)
    if not is_receivable(stream) or is_at_work(stream):
        return -1
    if stream.inbox_start:
        compact(stream, buffers)
    buffers.scratch = NULL
    try:
        n = receive(stream, buffers, borrowed, RECEIVE)
        if n > 0:
            buffers.hold(&stream.inbox, borrowed, n)
    finally:
        buffers.scratch = borrowed
    return n


cdef Py_ssize_t borrow_input(Stream* stream, Buffers buffers, Input* input) except -2:
    """Return all bytes that have come and are not used yet, where they lie: in the inbox, or else, received
    now, in the buffer that all streams share. The result is receive()'s; if it is positive, return_input()
    must follow. `input.size` is 0 at first; called again, it receives more than that."""
    cdef Py_ssize_t waiting = stream.inbox.size - stream.inbox_start
    cdef Py_ssize_t n = 0
    input.shared = waiting == 0 and is_receivable(stream) and buffers.scratch != NULL
    if input.shared:
        input.data = buffers.scratch
        buffers.scratch = NULL
        try:
            n = input.size = receive(stream, buffers, input.data, RECEIVE)
        finally:
            if n <= 0:
                buffers.scratch = input.data
        return n
    if waiting == input.size:
        n = receive_little(stream, buffers)
        if n <= 0 or stream.inbox.size == 0:
            return min(n, <Py_ssize_t> 0)
    stream.lent = True
    input.data = stream.inbox.data + stream.inbox_start
    input.size = stream.inbox.size - stream.inbox_start
    return input.size


cdef int return_input(Stream* stream, Buffers buffers, Input* input, Py_ssize_t used) except -1:
    """The first `used` bytes are used up; the others wait in the inbox."""
    if not input.shared:
        stream.lent = False
        consume_inbox(stream, buffers, used)
        if stream.fd < 0:                       # closed meanwhile
            buffers.release(&stream.inbox)
            stream.inbox_start = 0
        return 0
    buffers.scratch = input.data
    return buffers.hold(&stream.inbox, input.data + used, input.size - used) if used < input.size else 0


cdef bint has_bytes(Stream* stream) noexcept:
    """Return whether the socket has bytes that have not been received."""
    cdef char byte
    return recv(stream.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0


cdef bytes first_bytes(Stream* stream, Py_ssize_t most):
    """Return those that have been received and not used yet."""
    if stream.inbox.data == NULL:
        return b""
    return PyBytes_FromStringAndSize(
        stream.inbox.data + stream.inbox_start,
        min(most, <Py_ssize_t> stream.inbox.size - stream.inbox_start))


cdef int compact(Stream* stream, Buffers buffers) except -1:
    """Move the rest of the inbox to its start, and a small rest out of a large buffer."""
    cdef Buffer old = stream.inbox
    cdef size_t left = old.size - stream.inbox_start
    if left <= LITTLE:
        stream.inbox.data = NULL
        stream.inbox.size = stream.inbox.room = 0
        buffers.hold(&stream.inbox, old.data + stream.inbox_start, left)
        buffers.release(&old)
    else:
        memmove(old.data, old.data + stream.inbox_start, left)
        stream.inbox.size = <uint32_t> left
    stream.inbox_start = 0
    return 0


cdef void consume_inbox(Stream* stream, Buffers buffers, Py_ssize_t n) noexcept:
    """The first n bytes of the inbox are used up."""
    stream.inbox_start += <uint32_t> n
    if stream.inbox_start >= stream.inbox.size:
        stream.inbox_start = 0
        buffers.release(&stream.inbox)


# -- bytes that go -------------------------------------------------------------------------------------------


cdef ssize_t transmit(Stream* stream, const char* a, size_t na, const char* b, size_t nb) except -2:
    """As send(2) of a and then b, through the layer if there is one."""
    if stream.layer == NULL:
        return send2(stream.fd, a, na, b, nb)
    return transmit_encrypted(stream, a, na, b, nb)


cdef ssize_t transmit_encrypted(Stream* stream, const char* a, size_t na, const char* b, size_t nb) except -2:
    cdef TlsLayer layer = <TlsLayer> stream.layer
    return layer.send(stream.fd, a, na, b, nb)


cdef int push_ciphertext(Stream* stream) except -2:
    """Send what the layer has kept: 1 when all of it is gone, 0 when the client has to take some first, -1
    when it is gone."""
    cdef TlsLayer layer
    if stream.layer == NULL:
        return 1
    layer = <TlsLayer> stream.layer
    return layer.push_on(stream.fd)


cdef int send_pending(Stream* stream, Buffers buffers) except -2:
    """Send `out` and the body behind it, as far as the client takes them now: SENT_ALL, STALLED,
    FAILED_TO_SEND."""
    cdef size_t body_size, head_left, body_left
    cdef const char* body
    cdef ssize_t n
    while True:
        body_size = 0 if stream.out_body == NULL else PyBytes_GET_SIZE(<object> stream.out_body)
        if stream.out_sent == stream.out.size + body_size:
            if stream.layer == NULL:
                break
            n = push_ciphertext(stream)
            if n > 0 and unsent(stream) and not stream.gone:
                continue                        # put there while Python code ran
            if n > 0:
                break
            if n < 0:
                return FAILED_TO_SEND
            stream.stalled = True
            return STALLED
        if body_size == 0:
            n = transmit(stream, stream.out.data + stream.out_sent, stream.out.size - stream.out_sent, NULL,
                0)
        else:
            head_left = stream.out.size - stream.out_sent if stream.out_sent < stream.out.size else 0
            body_left = stream.out.size + body_size - stream.out_sent - head_left
            body = PyBytes_AS_STRING(<object> stream.out_body) + body_size - body_left
            n = transmit(stream, stream.out.data + stream.out_sent, head_left, body, body_left)
        if n < 0:
            if stream.gone:                     # closed while Python code ran in the layer
                return FAILED_TO_SEND
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                return FAILED_TO_SEND
            stream.stalled = True
            return STALLED
        if stream.gone:
            return FAILED_TO_SEND
        stream.out_sent += n
        buffers.sent += n
    drop_unsent(stream, buffers)
    stream.stalled = False
    return SENT_ALL


cdef void set_out_body(Stream* stream, bytes body) noexcept:
    """The body is sent behind `out`. There is none yet, and nothing is put into `out` until it is gone."""
    Py_INCREF(body)
    stream.out_body = <PyObject*> body


cdef void drop_unsent(Stream* stream, Buffers buffers) noexcept:
    cdef PyObject* body = stream.out_body
    buffers.release(&stream.out)
    stream.out_sent = 0
    stream.out_body = NULL
    Py_XDECREF(body)


# -- the end -------------------------------------------------------------------------------------------------


cdef int half_close(Stream* stream, Buffers buffers) except -1:
    """Tell the client that no more will be sent. Bytes that it still sends are not kept."""
    cdef TlsLayer layer
    buffers.release(&stream.inbox)
    stream.inbox_start = 0
    if stream.layer != NULL:
        layer = <TlsLayer> stream.layer
        layer.goodbye(stream.fd)
    if stream.fd >= 0:                          # else closed while Python code ran
        shutdown(stream.fd, SHUT_WR)
    return 0


cdef int close_stream(Stream* stream, Buffers buffers, Loop loop) except -1:
    """Close the descriptor, once, unless it was given away; tasklets that wait for it go on. If the stream is
    torn it is reset."""
    cdef TlsLayer layer = None
    if stream.layer != NULL:
        layer = <TlsLayer> stream.layer
        if not stream.torn and not stream.gone:
            layer.goodbye(stream.fd)
        layer.closed = True
    stream.gone = stream.ended = True
    if stream.fd >= 0:
        loop.fds.forget(stream.fd)
        if stream.torn:
            make_reset(stream.fd)
        close_fd(stream.fd)
        stream.fd = -1
    if not stream.lent and (layer is None or not layer.at_work):    # else the inbox is in use
        buffers.release(&stream.inbox)
        stream.inbox_start = 0
    drop_unsent(stream, buffers)
    return 0


cdef void free_stream(Stream* stream, Buffers buffers) noexcept:
    """The owner ends."""
    buffers.release(&stream.inbox)
    drop_unsent(stream, buffers)
    Py_XDECREF(stream.layer)
    stream.layer = NULL
