"""The life of a connection, in the loop and without a tasklet of its own:

    accept -> read -> scan head -> Request (tasklet: environ, application, response) -> send -> next head, or close

    READING ----- head complete ----> RUNNING_APP ---- response ended ----> READING        keep-alive
       |                                   |                                   |
       | malformed, too large, too late    | cannot be kept                    | idle for too long
       +--> answer --> LINGERING <---------+                                   +--> CLOSED

Reading happens when the loop says that there is something, into a receive buffer that all connections share; what is left over (a part
of a head, a body, pipelined requests) is kept in a buffer of the connection's own. So an idle connection is one small object. Requests
of one connection are answered one after the other, in a loop, never by recursion. Sending: see _service.pyx.

A connection is registered with the poller only when it has to wait, so one that is answered and closed at once never is.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EAGAIN, ECONNABORTED, EINTR, EINVAL, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSYS, EPERM, EPROTO, errno
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove
from posix.unistd cimport close as os_close

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.loop cimport FdEntry, Loop, get_loop
from syncless._core.poller cimport HANGUP, READ, WRITE
from syncless._core.scheduler cimport Scheduler
from syncless._core.timers cimport timer_init
from syncless.wsgi._head cimport head
from syncless.wsgi._input cimport Input
from syncless.wsgi._request cimport Request
from syncless.wsgi._service cimport (
    BODY_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE, SCRATCH, WRITE_DEADLINE, Service,
)

from syncless._core.tasklet import TaskletExit
from syncless.wsgi.errors import EXPLANATIONS, REASONS, BodyTimeout, ClientGone

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #include <sys/sendfile.h>
    #include <netinet/in.h>
    #include <arpa/inet.h>
    #include <errno.h>

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

    /* accept4 with the peer's address as text. IPv4 inside IPv6 shows as IPv4. port -1: the family has none. */
    static int syncless_accept(int listener, char *text, int *port) {
        union { struct sockaddr any; struct sockaddr_in v4; struct sockaddr_in6 v6; struct sockaddr_storage room; } a;
        socklen_t length = sizeof a;
        int fd = accept4(listener, &a.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        text[0] = 0;
        *port = -1;
        if (fd < 0)
            return fd;
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

    static void syncless_reset(int fd) {
        struct linger hard = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    """
    enum: INET6_ADDRSTRLEN
    int MSG_DONTWAIT, SHUT_WR
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    int shutdown(int fd, int how) nogil
    ssize_t sendfile(int out, int file, int64_t* offset, size_t count) nogil
    ssize_t syncless_send2(int fd, const char* a, size_t na, const char* b, size_t nb) nogil
    int syncless_accept(int listener, char* text, int* port) nogil
    void syncless_reset(int fd) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)
    int PyUnicode_CompareWithASCIIString(object text, const char* raw)

cdef enum:
    ACCEPT_BATCH = 64
    OUT_HIGH = 65536            # bytes waiting to be sent beyond which no further pipelined request is begun
    INBOX = 8192
    LINGER_BYTES = 1 << 20      # thrown away at most



cdef str INPUT = "wsgi.input"


cdef class Connection(Peer):
    def __cinit__(self):
        self.fd = -1

    # -- what the loop says --------------------------------------------------------------------------------------------------

    cdef int on_ready(self, Loop loop, int bits) except -1:
        if bits & HANGUP:
            self.hung = True
        if bits & READ:
            self.readable = True
            if self.reader is not None:
                loop.wake(self.reader, None)
        if bits & WRITE:
            if self.writer is not None:
                loop.wake(self.writer, None)
            elif self.sending:
                self.flush(loop)
        if bits & READ:
            if self.phase == READING:
                self.process(loop)
            elif self.phase == LINGERING:
                self.linger(loop)
        return 0

    cdef int run(self, Scheduler loop) except -1:
        """Its turn has come again, after accept() or after a long row of pipelined requests."""
        if self.phase == READING:
            self.process(<Loop> loop)
        return 0

    cdef int expired(self, Loop loop, int kind) except -1:
        if kind == BODY_DEADLINE or (kind == WRITE_DEADLINE and self.writer is not None):
            self.timed_out = True
            if self.reader is not None:
                loop.wake(self.reader, None)
            if self.writer is not None:
                loop.wake(self.writer, None)
            return 0
        if kind == HEAD_DEADLINE:
            return self.refuse(loop, 408)
        return self.close(loop, kind == WRITE_DEADLINE)

    # -- reading and answering -----------------------------------------------------------------------------------------------

    cdef int process(self, Loop loop) except -1:
        """Answers what has arrived, request after request."""
        cdef Request request
        cdef Service service = self.service
        cdef int left = service.pipelined
        while self.phase == READING and not self.closing and not self.sending and self.out.size < OUT_HIGH and self.out_body is None:
            if left == 0:
                loop.push(self)
                return 0
            left -= 1
            request = self.next_request(loop)
            if request is None:
                break
            service.active += 1
            service.requests += 1
            request.serve(loop)                 # may park; others run meanwhile
            service.active -= 1
            self.request = None
            if Py_REFCNT(<PyObject*> request) == 1:
                service.spare_request = request
            if self.phase == CLOSED:
                return 0
            self.phase = READING
            if not request.keep_alive:
                self.unread = not request.input.finished
                self.close_when_sent(loop)
            elif self.out.size or self.out_body is not None:
                service.queue_flush(self)
        return self.rest(loop)

    cdef int rest(self, Loop loop) except -1:
        """Nothing more to do now: waits for the client with the deadline that fits."""
        if self.phase != READING or self.closing or self.sending:
            return 0
        if self.inbox.size:
            if self.deadline_kind != HEAD_DEADLINE:
                self.service.set_deadline(self, HEAD_DEADLINE)
        elif self.deadline_kind != HEAD_DEADLINE:       # a new connection keeps the one of its first head
            self.service.set_deadline(self, IDLE_DEADLINE)
        return self.arm(loop, READ)

    cdef Request next_request(self, Loop loop):
        """Reads until a head is complete; None when the client has to send more first, or is refused."""
        cdef head found
        cdef Service service = self.service
        cdef Request request
        cdef char* data
        cdef char* borrowed
        cdef Py_ssize_t got
        cdef long used
        while True:
            if self.inbox.size:
                data = self.inbox.data + self.inbox_start
                used = service.environs.scan(data, self.inbox.size - self.inbox_start, &service.head_limits, self.fd, &found)
                if used == 0:
                    got = self.receive_more()
                    if got > 0:
                        continue
                    if got == 0:
                        self.close_when_sent(loop)
                    return None
                if used < 0:
                    self.refuse(loop, -used)
                    return None
                request = self.prepare(data, &found)
                self.consume(used)
                return request
            if not self.readable and not self.hung:
                return None
            borrowed = service.scratch
            if borrowed == NULL:                # a finaliser switched while another connection had it
                service.reserve(&self.inbox, INBOX)
                got = self.receive_more()
                if got > 0:
                    continue
                if got == 0:
                    self.close_when_sent(loop)
                return None
            got = self.receive(borrowed, SCRATCH)
            if got <= 0:
                if got == 0:
                    self.close_when_sent(loop)
                return None
            used = service.environs.scan(borrowed, got, &service.head_limits, self.fd, &found)
            if used <= 0:
                self.keep(borrowed, got)
                continue                        # scanned again where it is kept: refused there, or completed
            service.scratch = NULL
            try:
                request = self.prepare(borrowed, &found)
                if got > used:
                    self.keep(borrowed + used, got - used)
            finally:
                service.scratch = borrowed
            return request

    cdef Request prepare(self, const char* data, head* found):
        """A Request from a scanned head."""
        cdef Service service = self.service
        cdef Request request
        cdef dict environ = service.environs.make(data, found, self.fd, self.remote_addr, self.remote_port)
        if service.spare_request is not None:
            request = <Request> service.spare_request
            service.spare_request = None
            if Py_REFCNT(<PyObject*> request.input) > 1:
                request.input = Input()         # the application keeps the last one
        else:
            request = Request(service)
        service.set_deadline(self, NO_DEADLINE)
        self.phase = RUNNING_APP
        self.request = request
        request.peer = self
        request.head_only = found.method_size == 4 and data[found.method] == c"H" and data[found.method + 1] == c"E" \
            and data[found.method + 2] == c"A" and data[found.method + 3] == c"D"
        request.http_1_0 = found.minor == 0
        request.keep_alive = found.keep_alive
        request.input.begin(self, found.content_length, found.chunked, found.expect_continue)
        request.input.max_body = service.max_body
        request.input.chunk_line = service.chunk_line
        request.input.trailers = service.trailer_bytes
        request.too_large = found.content_length > service.max_body
        environ[INPUT] = request.input
        request.environ = environ
        return request

    # -- bytes that come -----------------------------------------------------------------------------------------------------

    cdef Py_ssize_t receive(self, char* into, size_t room) except -2:
        """Bytes received; 0 when the client has closed or failed; -1 when nothing is there now."""
        cdef Py_ssize_t n
        if self.ended:
            return 0
        while True:
            n = recv(self.fd, into, room, MSG_DONTWAIT)
            if n > 0:
                if n < <Py_ssize_t> room and not self.hung:
                    self.readable = False       # drained; the next byte makes an event
                return n
            if n < 0 and errno == EINTR:
                continue
            if n < 0 and errno == EAGAIN:
                self.readable = self.hung = False
                return -1
            self.ended = True
            return 0

    cdef Py_ssize_t receive_more(self) except -2:
        """As receive(), behind what is in the inbox already."""
        cdef Py_ssize_t n
        cdef size_t left
        if not self.readable and not self.hung:
            return -1
        if self.inbox_start:
            left = self.inbox.size - self.inbox_start
            memmove(self.inbox.data, self.inbox.data + self.inbox_start, left)
            self.inbox.size = left
            self.inbox_start = 0
        if self.inbox.room - self.inbox.size < 1024:
            self.service.reserve(&self.inbox, INBOX)
        n = self.receive(self.inbox.data + self.inbox.size, self.inbox.room - self.inbox.size)
        if n > 0:
            self.inbox.size += n
        elif self.inbox.size == 0:
            self.service.release(&self.inbox)
        return n

    cdef int keep(self, const char* data, size_t size) except -1:
        return self.service.append(&self.inbox, data, size)

    # -- the body's source (ByteSource) --------------------------------------------------------------------------------------

    cdef Py_ssize_t available(self, char** data) except -1:
        if self.inbox.size == 0 and self.more() == 0:
            return 0
        data[0] = self.inbox.data + self.inbox_start
        return self.inbox.size - self.inbox_start

    cdef Py_ssize_t more(self) except -1:
        cdef Py_ssize_t n
        while True:
            n = self.receive_more()
            if n >= 0:
                return n
            self.wait_readable()

    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -1:
        cdef Py_ssize_t got
        if self.inbox.size:
            got = min(n, <Py_ssize_t> (self.inbox.size - self.inbox_start))
            memcpy(into, self.inbox.data + self.inbox_start, got)
            self.consume(got)
            return got
        while True:
            got = -1
            if self.readable or self.hung:
                got = self.receive(into, n)
            if got >= 0:
                return got
            self.wait_readable()

    cdef void consume(self, Py_ssize_t n) noexcept:
        self.inbox_start += n
        if self.inbox_start >= self.inbox.size:
            self.inbox_start = 0
            self.service.release(&self.inbox)

    cdef int expected(self) except -1:
        if self.inbox.size == 0:                # else the client goes on by itself
            self.send_all(b"HTTP/1.1 100 Continue\r\n\r\n", 25)
        return 0

    cdef int wait_readable(self) except -1:
        """Parks the tasklet that reads a body until bytes come; BodyTimeout, ClientGone."""
        cdef Loop loop = get_loop()
        if self.phase == CLOSED or self.phase == LINGERING:
            raise ClientGone("the connection is closed")
        if self.reader is not None:
            raise RuntimeError("another tasklet is reading this body already")
        self.arm(loop, READ)
        self.timed_out = False
        self.service.set_deadline(self, BODY_DEADLINE)
        self.reader = loop.current
        try:
            loop.park("request body", self.request, NEVER)
        finally:
            self.reader = None
            if self.deadline_kind == BODY_DEADLINE:
                self.service.set_deadline(self, NO_DEADLINE)
        if self.timed_out:
            raise BodyTimeout(f"no byte of the request body came for {self.service.limits.body_seconds} s")
        return 0

    # -- bytes that go -------------------------------------------------------------------------------------------------------

    cdef int flush(self, Loop loop) except -1:
        """Sends what is in the out buffer, as far as the client takes it; the rest when it is ready."""
        cdef ssize_t n
        cdef size_t head_left, body_left
        if self.gone or self.writer is not None:
            return 0
        while True:
            head_left = self.out.size - self.out_sent
            body_left = 0
            if self.out_body is not None:
                body_left = PyBytes_GET_SIZE(self.out_body) - self.body_sent
            if head_left + body_left == 0:
                break
            n = syncless_send2(self.fd, self.out.data + self.out_sent, head_left,
                               PyBytes_AS_STRING(self.out_body) + self.body_sent if body_left else NULL, body_left)
            if n < 0:
                if errno == EINTR:
                    continue
                if errno == EAGAIN:
                    self.sending = True
                    if self.phase != RUNNING_APP:
                        self.service.set_deadline(self, WRITE_DEADLINE)
                    return self.arm(loop, WRITE)
                return self.close(loop, False)
            if n > <ssize_t> head_left:
                self.out_sent += head_left
                self.body_sent += n - head_left
            else:
                self.out_sent += n
        self.service.release(&self.out)
        self.out_sent = 0
        self.out_body = None
        if self.closing:
            return self.finish(loop)
        if self.sending:
            self.sending = False
            if self.phase == READING:
                self.service.set_deadline(self, IDLE_DEADLINE)
        if self.phase == READING and (self.inbox.size or self.hung):
            loop.push(self)                     # the next pipelined request waited for this one to be sent
        return 0

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
                break
            n = syncless_send2(self.fd, self.out.data + self.out_sent, ahead, data + done, size - done)
            if n < 0:
                if errno == EAGAIN:
                    self.wait_writable(loop)
                elif errno != EINTR:
                    self.gone = True
                continue
            if n > <ssize_t> ahead:
                self.out_sent += ahead
                done += n - ahead
            else:
                self.out_sent += n
        self.service.release(&self.out)
        self.out_sent = 0
        self.sending = False
        return 0

    cdef int send_file(self, int fd, int64_t offset, int64_t count) except -1:
        cdef Loop loop = get_loop()
        cdef ssize_t n
        self.send_all(NULL, 0)
        while count > 0:
            if self.gone:
                raise ClientGone("the client has closed the connection")
            n = sendfile(self.fd, fd, &offset, <size_t> min(count, <int64_t> (1 << 20)))
            if n > 0:
                count -= n
                if count and loop._poll_due():
                    loop.yield_()
            elif n == 0:
                raise RuntimeError("the file became shorter while it was sent")
            elif errno == EAGAIN:
                self.wait_writable(loop)
            elif errno == EINVAL or errno == ENOSYS:
                data = os.pread(fd, min(count, <int64_t> 65536), offset)
                if not data:
                    raise RuntimeError("the file became shorter while it was sent")
                self.send_all(data, len(data))
                offset += len(data)
                count -= len(data)
            elif errno != EINTR:
                self.gone = True
        return 0

    cdef int wait_writable(self, Loop loop) except -1:
        """Parks the tasklet that sends until the client takes more; ClientGone after Limits.write_seconds without progress."""
        if self.writer is not None:
            raise RuntimeError("another tasklet is sending on this connection already")
        self.arm(loop, WRITE)
        self.timed_out = False
        self.service.set_deadline(self, WRITE_DEADLINE)
        self.writer = loop.current
        try:
            loop.park("client to read", self.request, NEVER)
        finally:
            self.writer = None
            if self.deadline_kind == WRITE_DEADLINE:
                self.service.set_deadline(self, NO_DEADLINE)
        if self.timed_out:
            self.gone = True
        return 0

    # -- the end -------------------------------------------------------------------------------------------------------------

    cdef int refuse(self, Loop loop, int status) except -1:
        """Answers a head that is no request, and closes."""
        cdef bytes answer
        body = f"{status} {REASONS[status]}\n{EXPLANATIONS[status]}\n"
        answer = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode() + self.service.dates()
            + f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        self.service.append(&self.out, answer, len(answer))
        if self.service.log_access is not None:
            self.service.log_access({"REMOTE_ADDR": self.remote_addr}, f"{status} {REASONS[status]}", len(body), loop.now)
        return self.close_when_sent(loop)

    cdef int close_when_sent(self, Loop loop) except -1:
        self.closing = True
        if self.sending:
            return 0
        if self.out.size or self.out_body is not None:
            return self.service.queue_flush(self)
        return self.finish(loop)

    cdef int finish(self, Loop loop) except -1:
        """All is sent. Closing now would reset the connection, and perhaps destroy the answer, if the client has sent more."""
        if self.phase == CLOSED:
            return 0
        if self.ended or not (self.inbox.size or self.readable or self.hung or self.unread):
            return self.close(loop, False)
        self.phase = LINGERING
        self.service.release(&self.inbox)
        self.inbox_start = 0
        shutdown(self.fd, SHUT_WR)
        self.service.set_deadline(self, LINGER_DEADLINE)
        self.arm(loop, READ)
        return self.linger(loop)

    cdef int linger(self, Loop loop) except -1:
        cdef char waste[4096]
        cdef Py_ssize_t n
        cdef int rounds = 0
        while rounds < 64:
            n = self.receive(waste, 4096)
            if n < 0:
                return self.arm(loop, READ)
            if n == 0:
                break
            self.lingered += n
            if self.lingered > LINGER_BYTES:
                break
            rounds += 1
        else:
            return self.arm(loop, READ)
        return self.close(loop, False)

    cdef int abort(self) except -1:
        """Resets the connection: the client must not take what it has for the whole."""
        self.gone = True
        return self.close(self.service.loop, True)

    cdef int close(self, Loop loop, bint reset) except -1:
        cdef Service service = self.service
        if self.phase == CLOSED:
            return 0
        self.phase = CLOSED
        self.gone = self.ended = True
        service.set_deadline(self, NO_DEADLINE)
        loop.forget_fd(self.fd)
        service.environs.forget(self.fd)
        if reset:
            syncless_reset(self.fd)
        os_close(self.fd)
        self.fd = -1
        service.release(&self.inbox)
        service.release(&self.out)
        self.out_body = None
        if self.reader is not None:
            loop.wake(self.reader, None)
        if self.writer is not None:
            loop.wake(self.writer, None)
        service.connections -= 1
        if service.acceptor is not None and service.limits.connections:
            loop.push(service.acceptor)         # there is room again
        Py_DECREF(self)                         # the reference of being open
        return 0

    cdef int arm(self, Loop loop, int bits) except -1:
        cdef FdEntry* entry = loop.entry(self.fd)
        return loop.arm(self.fd, entry, bits)


cdef void retry_accept(void* owner) noexcept:
    acceptor = <Acceptor> owner
    try:
        acceptor.service.loop.push(acceptor)
    except MemoryError:
        pass


cdef class Acceptor(Watcher):
    """Accepts the connections of one listening socket, which its Server owns."""

    def __cinit__(self):
        timer_init(&self.retry, retry_accept, <void*> self)

    def __init__(self, Service service not None, int fd):
        self.service = service
        self.fd = fd
        os.set_blocking(fd, False)
        service.loop.watch(fd, self)
        service.acceptor = self

    cdef int on_ready(self, Loop loop, int bits) except -1:
        return self.accept(loop)

    cdef int run(self, Scheduler loop) except -1:
        return self.accept(<Loop> loop)

    cdef int accept(self, Loop loop) except -1:
        """Accepts what has come, up to a batch. Each connection gets its turn afterwards: an application that waits must not hold up
        the rest of the backlog."""
        cdef Service service = self.service
        cdef Connection connection
        cdef char text[INET6_ADDRSTRLEN]
        cdef int fd, port, _, limit = service.limits.connections
        if self.closed:
            return 0
        for _ in range(ACCEPT_BATCH):
            if limit and service.connections >= limit:
                return 0                        # the rest waits in the backlog; close() pushes us again
            fd = syncless_accept(self.fd, text, &port)
            if fd < 0:
                if errno == EINTR or errno == ECONNABORTED or errno == EPROTO or errno == EPERM:
                    continue
                if errno != EAGAIN:
                    self.shortage(loop, errno)
                else:
                    self.complained = False
                    loop.arm(self.fd, loop.entry(self.fd), READ)
                return 0
            connection = Connection()
            connection.service = service
            connection.fd = fd
            if not same_text(service.last_addr, text):
                service.last_addr = text.decode()
            connection.remote_addr = service.last_addr
            connection.remote_port = str(port) if port >= 0 else ""
            connection.readable = True
            Py_INCREF(connection)               # given back by close()
            loop.forget_fd(fd)
            loop.entry(fd).watcher = <PyObject*> connection
            service.connections += 1
            service.accepted += 1
            service.set_deadline(connection, HEAD_DEADLINE)
            loop.push(connection)
        loop.push(self)
        return 0

    cdef int shortage(self, Loop loop, int error) except -1:
        """No descriptors or memory: the oldest idle connection makes room, and accepting goes on a little later."""
        cdef Service service = self.service
        if error != EMFILE and error != ENFILE and error != ENOBUFS and error != ENOMEM:
            loop.report("accept", OSError(error, os.strerror(error)))
            return 0
        if not self.complained:
            self.complained = True
            try:
                service.log_errors.write(
                    f"syncless: cannot accept connections: {os.strerror(error)}; closing idle ones. Raise the limit (ulimit -n) or set "
                    "Limits.connections\n")
                service.log_errors.flush()
            except Exception:
                pass
        if service.lists[IDLE_DEADLINE].first != NULL:
            (<Connection> service.lists[IDLE_DEADLINE].first).close(loop, False)
        if self.retry.index < 0:
            loop.timers.add(&self.retry, monotonic_ns() + 50000000)
        return 0

    def close(self) -> None:
        """Accepts no more. The socket is the caller's to close."""
        if not self.closed:
            self.closed = True
            self.service.loop.timers.remove(&self.retry)
            self.service.loop.forget_fd(self.fd)
            self.service.acceptor = None


cdef bint same_text(object text, const char* raw):
    return text is not None and PyUnicode_CompareWithASCIIString(text, raw) == 0


def close_connections(Service service not None, bint all_of_them) -> int:
    """Closes the connections that are between requests, or all; requests that still run are interrupted. Returns how many."""
    cdef Loop loop = service.loop
    cdef Connection connection
    cdef int fd, closed = 0
    for fd in range(loop.fd_room):
        if loop.fds[fd].watcher == NULL or not isinstance(<object> loop.fds[fd].watcher, Connection):
            continue
        connection = <Connection> loop.fds[fd].watcher
        if connection.service is not service:
            continue
        if all_of_them:
            if connection.request is not None:
                loop.throw(connection.request, TaskletExit())
            else:
                connection.close(loop, True)
            closed += 1
        elif connection.phase == READING and connection.inbox.size == 0 and connection.out.size == 0 and connection.out_body is None:
            connection.close(loop, False)
            closed += 1
    return closed
