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

import sys

cimport cython
from cpython.object cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy, memmove

from syncless._core.clock cimport NEVER
from syncless._core.loop cimport Loop, get_loop
from syncless._core.poller cimport HANGUP, READ, WRITE
from syncless._core.scheduler cimport Scheduler
from syncless.wsgi._head cimport head
from syncless.wsgi._input cimport Input
from syncless.wsgi._peer cimport Peer
from syncless.wsgi._request cimport Request
from syncless.wsgi._service cimport (
    BODY_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE, SCRATCH, WRITE_DEADLINE, Service,
)

from syncless.wsgi.errors import EXPLANATIONS, REASONS, BodyTimeout, ClientGone

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    """
    int MSG_DONTWAIT, SHUT_WR
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    int shutdown(int fd, int how) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef enum:
    OUT_HIGH = 65536            # bytes waiting to be sent beyond which no further pipelined request is begun
    INBOX = 8192
    LINGER_BYTES = 1 << 20      # thrown away at most



cdef str INPUT = sys.intern("wsgi.input")     # the very object that is in the template: found without a comparison


@cython.no_gc           # its cycles with a Request end with the request; not being tracked makes it smaller and cheaper
cdef class Connection(Peer):
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
            self.request = request.peer = None
            self.busy = False
            if Py_REFCNT(<PyObject*> request) == 1:
                request._exception = None       # its traceback would keep the request's objects alive
                service.spare_request = request
            if self.phase == CLOSED:
                service.release(&self.out)      # what was still written to it
                self.out_body = None
                return 0
            self.phase = READING
            self.kept = True
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
                used = service.environs.scan(data, self.inbox.size - self.inbox_start, &service.head_limits, self.fd, self.kept, &found)
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
            used = service.environs.scan(borrowed, got, &service.head_limits, self.fd, self.kept, &found)
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
        self.busy = True
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
            self.service.set_deadline(self, WRITE_DEADLINE)
            return 0
        if self.out.size or self.out_body is not None:
            return self.service.queue_flush(self)
        return self.finish(loop)

    cdef int sent(self, Loop loop, bint late) except -1:
        if self.closing:
            return self.finish(loop)
        if self.phase == READING:
            if late:
                self.service.set_deadline(self, IDLE_DEADLINE)
            if self.inbox.size or self.readable or self.hung:
                loop.push(self)                 # the next request waited for this response to be sent
        return 0

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

    cdef int close(self, Loop loop, bint reset) except -1:
        if self.phase == CLOSED:
            return 0
        self.phase = CLOSED
        self.ended = True
        self.service.release(&self.inbox)
        if self.reader is not None:
            loop.wake(self.reader, None)
        return Peer.close(self, loop, reset)
