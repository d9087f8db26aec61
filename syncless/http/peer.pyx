"""Bytes from and to a client, plain or through TLS, and closing its connection.

Received bytes that are not used at once wait in the inbox. To be sent are the bytes in the out buffer and at
most one large bytes object behind it. What is complete is sent when the listener flushes, as far as the client
takes it, and goes on when the client is ready; what is part of something longer is sent at once, and the
tasklet parks while the client is slow. Knows nothing of HTTP. Next to read: response.pyx, which fills the
buffer, and connection.pyx, which reads.
"""

from os import pread as read_at

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN, EINTR, EINVAL, ENOSYS, errno
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memmove
from posix.unistd cimport close as os_close

from syncless._core.clock cimport NEVER
from syncless._core.calls.filesystems cimport in_pool
from syncless._core.loop cimport FdEntry, Loop, get_loop
from syncless._core.poll.poller cimport WRITE
from syncless.http.buffers cimport LITTLE, SCRATCH, Buffer
from syncless.http.deadlines cimport NO_DEADLINE, WRITE_DEADLINE
from syncless.http.pace cimport forget_pace, rested, sent_more, stalled, too_slow
from syncless.http.listener cimport Link, Listener

from syncless.http.errors import ClientGone

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <sys/sendfile.h>

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
    int MSG_DONTWAIT, MSG_PEEK
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t sendfile(int out, int file, int64_t* offset, size_t count) nogil
    ssize_t syncless_send2(int fd, const char* a, size_t na, const char* b, size_t nb) nogil
    void syncless_reset(int fd) nogil


cdef enum:
    INBOX = 8192


@cython.no_gc
cdef class Peer(Link):
    """A client at the other end of a socket.

    receive()    what has come
    out          what is appended here is sent at the end of the turn
    out_body     a large body behind it
    flush()      sends as much as the client takes now; the rest follows by itself
    send_all()   sends all of it and then the data, now; parks while the client is slow; ClientGone
    send_file()  the same with bytes of a file, by sendfile
    abort()      resets the connection

    A connection says in sent() what is to be done when all has been sent.
    """

    def __cinit__(self):
        self.fd = -1

    cdef int sent(self, Loop loop, bint late) except -1:
        """All is sent; `late` if the client was slow."""
        return 0

    cdef int reading_kind(self) noexcept:
        """The deadline of a tasklet that waits for bytes while another sends; NO_DEADLINE if none does."""
        return NO_DEADLINE

    # -- bytes that come -----------------------------------------------------------------------------------------------------

    cdef Py_ssize_t receive(self, char* into, size_t room) except -2:
        """Bytes received; 0 when the client has closed or failed; -1 when nothing is there now."""
        cdef Py_ssize_t n
        if self.layer is None:
            return self.receive_raw(into, room)
        if self.ended:
            return 0
        n = self.layer.receive(self.fd, into, room, self.peer_shutdown)
        if self.fd < 0:                         # closed while Python code ran; the inbox was left for `into`
            self.listener.buffers.release(&self.inbox)
            n = 0
        if n == 0:
            self.ended = True
        elif n < 0:
            self.readable = self.peer_shutdown = False
        return n

    cdef Py_ssize_t receive_raw(self, char* into, size_t room) except -2:
        cdef Py_ssize_t n
        if self.ended:
            return 0
        while True:
            n = recv(self.fd, into, room, MSG_DONTWAIT)
            if n > 0:
                if n < <Py_ssize_t> room and not self.peer_shutdown:
                    self.readable = False       # drained; the next byte makes an event
                return n
            if n < 0 and errno == EINTR:
                continue
            if n < 0 and errno == EAGAIN:
                self.readable = self.peer_shutdown = False
                return -1
            self.ended = True
            return 0

    cdef bint has_bytes(self) noexcept:
        """Whether the socket has bytes that have not been received."""
        cdef char byte
        return recv(self.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0

    cdef bytes first_bytes(self, Py_ssize_t most):
        """Those that have been received and not used yet."""
        if self.inbox.data == NULL:
            return b""
        return PyBytes_FromStringAndSize(self.inbox.data + self.inbox_start, min(most, <Py_ssize_t> self.inbox.size - self.inbox_start))

    cdef Py_ssize_t receive_more(self) except -2:
        """As receive(), behind what is in the inbox already, which gets room for a body."""
        cdef Py_ssize_t n
        if not self.readable and not self.peer_shutdown:
            return -1
        if self.inbox_start:
            self.compact()
        if self.inbox.room - self.inbox.size < 1024:
            self.listener.buffers.reserve(&self.inbox, INBOX)
        n = self.receive(self.inbox.data + self.inbox.size, self.inbox.room - self.inbox.size)
        if n > 0:
            self.inbox.size += n
        elif self.inbox.size == 0:
            self.listener.buffers.release(&self.inbox)
        return n

    cdef Py_ssize_t receive_little(self) except -2:
        """The same with no more room than the bytes need: a half-sent head may stay for long."""
        cdef char* borrowed = self.listener.buffers.scratch
        cdef Py_ssize_t n
        if borrowed == NULL:                    # a finaliser switched while another connection had it
            return self.receive_more()
        if not self.readable and not self.peer_shutdown:
            return -1
        if self.inbox_start:
            self.compact()
        self.listener.buffers.scratch = NULL
        try:
            n = self.receive(borrowed, SCRATCH)
            if n > 0:
                self.listener.buffers.hold(&self.inbox, borrowed, n)
        finally:
            self.listener.buffers.scratch = borrowed
        return n

    cdef int compact(self) except -1:
        """What is left of the inbox moves to its start, and out of a large buffer if it is little."""
        cdef Buffer old = self.inbox
        cdef size_t left = old.size - self.inbox_start
        if left <= LITTLE:
            self.inbox.data = NULL
            self.inbox.size = self.inbox.room = 0
            self.listener.buffers.hold(&self.inbox, old.data + self.inbox_start, left)
            self.listener.buffers.release(&old)
        else:
            memmove(old.data, old.data + self.inbox_start, left)
            self.inbox.size = <uint32_t> left
        self.inbox_start = 0
        return 0

    cdef void consume(self, Py_ssize_t n) noexcept:
        self.inbox_start += n
        if self.inbox_start >= self.inbox.size:
            self.inbox_start = 0
            self.listener.buffers.release(&self.inbox)

    # -- bytes that go -------------------------------------------------------------------------------------------------------

    cdef ssize_t transmit(self, const char* a, size_t na, const char* b, size_t nb) except -2:
        """As send(2) of a and then b, through the layer if there is one."""
        if self.layer is None:
            return syncless_send2(self.fd, a, na, b, nb)
        return self.layer.send(self.fd, a, na, b, nb)

    cdef int flush(self, Loop loop) except -1:
        """Sends what is in the out buffer, as far as the client takes it; the rest when it is ready."""
        cdef ssize_t n
        cdef size_t head_left, body_left
        cdef const char* body
        cdef bint late
        if self.gone or self.writer is not None:
            return 0
        while True:
            body_left = 0 if self.out_body is None else PyBytes_GET_SIZE(self.out_body)
            if self.out_sent < self.out.size:
                head_left = self.out.size - self.out_sent
            else:
                head_left = 0
                body_left -= self.out_sent - self.out.size
            if head_left + body_left == 0:
                if self.layer is None:
                    break
                n = self.layer.push(self.fd) - 1        # ciphertext that the client has not taken: as EAGAIN
                if n == 0:
                    break
                if n < -1:
                    return self.close(loop, False)
            else:
                body = NULL
                if body_left:
                    body = PyBytes_AS_STRING(self.out_body) + PyBytes_GET_SIZE(self.out_body) - body_left
                n = self.transmit(self.out.data + self.out_sent, head_left, body, body_left)
                if self.gone:           # Python code ran in the TLS layer
                    return 0
            if n < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    self.sending = True
                    stalled(self.listener, self.fd)
                    if too_slow(self.listener, self.fd):
                        return self.close(loop, True)
                    if not self.busy:
                        self.listener.deadlines.start(&self.deadline, WRITE_DEADLINE)
                    return self.arm(loop, WRITE)
                return self.close(loop, False)
            if self.sending:
                sent_more(self.listener, self.fd, n)
            self.out_sent += n
        self.listener.buffers.release(&self.out)
        self.out_sent = 0
        self.out_body = None
        late = self.sending
        if late:
            forget_pace(self.listener, self.fd)
        self.sending = False
        return self.sent(loop, late)

    cdef int send_all(self, const char* data, Py_ssize_t size) except -1:
        cdef Loop loop = get_loop()
        cdef ssize_t n
        cdef Py_ssize_t done = 0
        cdef size_t ahead
        while True:
            if self.gone:
                raise ClientGone("the client has closed the connection")
            if self.out_body is not None:       # a large body of the response before this one
                self.flush(loop)
                if self.out_body is not None:
                    self.wait_writable(loop)
                continue
            ahead = self.out.size - self.out_sent
            if ahead + size - done == 0:
                if self.layer is None:
                    break
                n = self.layer.push(self.fd) - 1
                if n == 0:
                    break
                self.gone = n < -1
            else:
                n = self.transmit(self.out.data + self.out_sent, ahead, data + done, size - done)
            if n < 0:
                if self.gone:
                    continue
                if errno == EAGAIN:
                    self.wait_writable(loop)
                elif errno != EINTR:
                    self.gone = True
                continue
            if self.listener.slow:
                sent_more(self.listener, self.fd, n)
            if n > <ssize_t> ahead:
                self.out_sent += ahead
                done += n - ahead
            else:
                self.out_sent += n
        self.listener.buffers.release(&self.out)
        self.out_sent = 0
        self.sending = False
        return 0

    cdef int send_file(self, int fd, int64_t offset, int64_t count, bint slow) except -1:
        """`slow`: its file system does not answer at once, so it is read in threads."""
        cdef Loop loop = get_loop()
        cdef ssize_t n
        self.send_all(NULL, 0)
        while count > 0:
            if self.gone:
                raise ClientGone("the client has closed the connection")
            n = -1
            if self.layer is None and not slow:
                n = sendfile(self.fd, fd, &offset, <size_t> min(count, <int64_t> (1 << 20)))
            if n > 0:
                sent_more(self.listener, self.fd, n)
                count -= n
                if count and loop._poll_due():
                    loop.yield_()
            elif n == 0:
                raise RuntimeError("the file became shorter while it was sent")
            elif self.layer is None and not slow and errno == EAGAIN:
                self.wait_writable(loop)
            elif slow or self.layer is not None or errno == EINVAL or errno == ENOSYS:
                size = min(count, <int64_t> 65536)
                data = in_pool(fd, read_at, (fd, size, offset), {}) if slow else read_at(fd, size, offset)
                if not data:
                    raise RuntimeError("the file became shorter while it was sent")
                self.send_all(data, len(data))
                offset += len(data)
                count -= len(data)
            elif errno != EINTR:
                self.gone = True
        return 0

    cdef int wait_writable(self, Loop loop) except -1:
        """Parks the tasklet that sends until the client takes more; ClientGone after Limits.write_seconds
        without progress."""
        if self.writer is not None:
            raise RuntimeError("another tasklet is sending on this connection already")
        self.arm(loop, WRITE)
        self.timed_out = False
        stalled(self.listener, self.fd)
        self.listener.deadlines.start(&self.deadline, WRITE_DEADLINE)
        self.writer = loop.current
        try:
            loop.park("client to read", self, NEVER)
        finally:
            self.writer = None
            if self.deadline.kind == WRITE_DEADLINE:
                self.listener.deadlines.stop(&self.deadline)
                if self.reading_kind() != NO_DEADLINE:
                    self.listener.deadlines.start(&self.deadline, self.reading_kind())
        rested(self.listener, self.fd)
        if self.timed_out or too_slow(self.listener, self.fd):
            self.gone = True
        return 0

    cdef int abort(self) except -1:
        """Resets the connection: the client must not take what it has for the whole. Whole answers to earlier
        requests go out before."""
        if self.out.size > self.out_sent and not self.gone and self.writer is None:
            self.transmit(self.out.data + self.out_sent, self.out.size - self.out_sent, NULL, 0)
        self.gone = True
        return self.close(self.listener.loop, True)

    cdef int close(self, Loop loop, bint reset) except -1:
        """Closes now, once. `reset`: the client must not take what it has for the whole."""
        cdef Listener listener = self.listener
        if self.fd < 0:
            return 0
        if self.layer is not None and not reset and not self.gone:
            self.layer.goodbye(self.fd)
        self.gone = self.ended = True
        if self.layer is not None:
            self.layer.closed = True
        listener.deadlines.stop(&self.deadline)
        loop.forget_fd(self.fd)
        listener.heads.forget(self.fd)
        if listener.slow:
            forget_pace(listener, self.fd)
        if self.is_counted():
            listener.leave(self.remote_addr)
        if reset:
            syncless_reset(self.fd)
        os_close(self.fd)
        self.fd = -1
        if self.layer is None or not self.layer.at_work:
            listener.buffers.release(&self.inbox)
        self.inbox_start = 0
        listener.buffers.release(&self.out)
        self.out_body = None
        if self.writer is not None:
            loop.wake(self.writer, None)
        listener.connections -= 1
        if listener.limits.connections and listener.acceptor is not None:
            loop.push(listener.acceptor)         # there is room again
        Py_DECREF(self)                         # the reference of being open
        return 0

    cdef bint is_counted(self) noexcept:
        """Whether it counts for Limits.client_connections: the same from admit() to close()."""
        return self.listener.limits.client_connections and not self.trusted and not self.expects_proxy_header and self.remote_port >= 0

    cdef bint admit(self) except -1:
        """Counts it for its client's address. Whether there may be so many from there."""
        return not self.is_counted() or self.listener.enter(self.remote_addr)

    cdef int arm(self, Loop loop, int bits) except -1:
        cdef FdEntry* entry = loop.entry(self.fd)
        return loop.arm(self.fd, entry, bits)
