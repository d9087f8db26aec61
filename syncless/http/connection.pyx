"""The life of a connection, in the loop and without a tasklet of its own:

    accept -> read -> scan head -> Exchange (tasklet: application, response) -> send -> next head, or
    close

    GREETING --- TLS is set up, the proxy has spoken ---> READING        both at once where the port is plain
    READING ----- head complete ----> RUNNING_APP ---- response ended ----> READING        keep-alive
       |             |                  ^  |                                   |
       |             +---> QUEUED ------+  |                                   |           too many run
       | malformed, too large, too late    | cannot be kept                    | idle for too long
       +--> answer --> LINGERING <---------+                                   +--> CLOSED

Reading happens when the loop says that there is something, into a receive buffer that all connections share;
what is left over (a part of a head, a body, pipelined requests) is kept in a buffer of the connection's own,
no larger than that. So an idle connection is one small object. Requests of one connection are answered one
after the other, in a loop, never by recursion. Sending: see listener.pyx.

A connection is registered with the poller only when it has to wait, so one that is answered and closed at
once never is.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from syncless._core.loop cimport Loop
from syncless._core.poll.poller cimport HANGUP, READ, WRITE
from syncless._core.scheduler cimport Scheduler
from syncless.http.application cimport Application
from syncless.http.bodysource cimport BodySource
from syncless.http.buffers cimport SCRATCH, Buffer
from syncless.http.deadlines cimport (
    BODY_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, NO_DEADLINE, PING_DEADLINE, QUEUE_DEADLINE,
    WRITE_DEADLINE,
)
from syncless.http.greeting cimport NOT_TLS, greet_peer
from syncless.http.scanner cimport head
from syncless.http.linger cimport begin_lingering, discard, may_linger
from syncless.http.pace cimport forget_pace, may_wait
from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.tls cimport READY, WANTS_READ, WANTS_WRITE

from syncless.http.accesslog import REFUSED_BYTES, refused_request
from syncless.http.errors import EXPLANATIONS, REASONS, ClientGone

cdef extern from *:
    """
    static int syncless_has_weakrefs(PyObject *o) { return *PyObject_GET_WEAKREFS_LISTPTR(o) != NULL; }
    """
    bint has_weakrefs "syncless_has_weakrefs" (PyObject* o) nogil

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef enum:
    OUT_HIGH = 65536            # bytes waiting to be sent beyond which no further pipelined request is begun


# its cycles with an Exchange end with the request; not being tracked makes it smaller and cheaper
@cython.no_gc
cdef class Connection(BodySource):
    # -- what the loop says --------------------------------------------------------------------------------------------------

    cdef int on_ready(self, Loop loop, int bits) except -1:
        if bits & HANGUP:
            self.peer_shutdown = True
        if self.phase == RUNNING_APP and self.request.interruptible and self.request.left():
            self.request.interruptible = False  # once
            loop.throw(self.request, ClientGone("the client has left"))
        if bits & READ:
            self.readable = True
            if self.layer is not None:
                self.layer.drained = False
            if self.reader is not None:
                loop.wake(self.reader, None)
        if self.phase == GREETING:
            return self.greet(loop)
        if bits & WRITE:
            if self.writer is not None:
                loop.wake(self.writer, None)
            elif self.sending:
                self.flush(loop)
        if bits & READ:
            if self.phase == READING:
                self.process(loop)
            elif self.phase == LINGERING:
                self.read_away(loop)
        return 0

    cdef int forked(self, Loop loop) except -1:
        """The child keeps no descriptor of it and sends nothing: the connection is the parent's, whose
        closing ends it. The part of a body that has come can still be read."""
        cdef Buffer inbox = self.inbox
        cdef uint32_t start = self.inbox_start
        self.gone = True
        self.inbox.data = NULL
        self.inbox.size = self.inbox.room = 0
        self.close(loop, False)
        self.inbox = inbox
        self.inbox_start = start
        return 0

    cdef int turn(self, Scheduler loop) except -1:
        """Its turn has come: after accept(), after a long row of pipelined requests, or in the queue."""
        if self.phase == READING:
            return self.process(<Loop> loop)
        if self.phase == GREETING:
            return self.greet(<Loop> loop)
        if self.phase == LINGERING:
            return self.read_away(<Loop> loop)
        if self.phase == QUEUED:
            self.listener.deadlines.stop(&self.deadline)
            self.phase = RUNNING_APP
            self.answer(<Loop> loop, self.request, True)
            if self.phase == READING:
                return self.process(<Loop> loop)
        return 0

    cdef int greet(self, Loop loop) except -1:
        cdef int outcome = greet_peer(self)
        if outcome == WANTS_READ:
            return self.arm(loop, READ)
        if outcome == WANTS_WRITE:
            return self.arm(loop, WRITE)
        if outcome == READY or outcome == NOT_TLS:
            self.phase = READING
            self.readable = True                # the layer may have the first request already
            self.listener.deadlines.start(&self.deadline, HEAD_DEADLINE)
            return self.process(loop) if outcome == READY else self.refuse(loop, 400, "This port speaks HTTPS, and the request is plain HTTP.")
        return self.close(loop, False)

    cdef int expired(self, Loop loop, int kind) except -1:
        if kind == WRITE_DEADLINE and may_wait(self.listener, self.fd):
            self.listener.deadlines.start(&self.deadline, WRITE_DEADLINE)
            return 0
        if kind == BODY_DEADLINE or kind == PING_DEADLINE or (kind == WRITE_DEADLINE and self.writer is not None):
            self.timed_out = True
            if self.reader is not None:
                loop.wake(self.reader, None)
            if self.writer is not None:
                loop.wake(self.writer, None)
            return 0
        if kind == HEAD_DEADLINE and self.inbox.size:
            return self.refuse(loop, 408)
        if kind == QUEUE_DEADLINE:
            self.listener.queued -= 1
            return self.refuse_busy(loop)
        if kind == IDLE_DEADLINE or kind == HEAD_DEADLINE:     # nobody waits for an answer
            self.close_idle(loop)
            return 0
        if kind == LINGER_DEADLINE and may_linger(self):
            return 0
        return self.close(loop, kind == WRITE_DEADLINE)

    cdef bint just_came(self, Loop loop, int64_t age) noexcept:
        """Whether it is younger than that (ns) and its first request may be on its way."""
        if self.kept or self.deadline.kind == NO_DEADLINE:
            return False
        return loop.now - self.listener.deadlines.began(&self.deadline) < age

    # -- reading and answering -----------------------------------------------------------------------------------------------

    cdef int process(self, Loop loop) except -1:
        """Answers what has arrived, request after request."""
        cdef Exchange request
        cdef Listener listener = self.listener
        cdef int left = listener.limits.pipelined
        if self.closing and self.unread:
            return self.read_away(loop)
        while self.phase == READING and not self.closing and not self.sending and self.out.size < OUT_HIGH and self.out_body is None:
            if left == 0:
                loop.push(self)
                return 0
            left -= 1
            request = self.next_request(loop)
            if request is None:
                break
            listener.requests += 1
            if listener.limits.requests and listener.active >= listener.limits.requests:
                return self.queue_up(loop)
            self.answer(loop, request, False)
        return self.rest(loop)

    cdef int answer(self, Loop loop, Exchange request, bint has_turn) except -1:
        """Runs the request to its end. `has_turn`: it is counted already, because the one that made room for
        it handed its turn over."""
        cdef Listener listener = self.listener
        if not has_turn:
            listener.active += 1
        request.serve(loop)                     # may park; others run meanwhile
        if listener.queued == 0 or not listener.next_turn():
            listener.active -= 1
        self.unread = not request.body.finished
        self.finish_request(request)
        if self.phase == CLOSED:
            listener.buffers.release(&self.out)          # what was still written to it
            self.out_body = None
            return 0
        self.kept = True
        if not request.response.keep_alive:
            return self.close_when_sent(loop)
        self.unread = False
        if self.out.size or self.out_body is not None:
            listener.flusher.add(self)
        return 0

    cdef int finish_request(self, Exchange request) except -1:
        """The request has ended, or will never begin."""
        self.request = request.peer = None
        if self.listener.slow and not self.sending:
            forget_pace(self.listener, self.fd)
        request.body.end()
        if request.handler is not None:
            request.handler = None
        if self.reader is not None:  # another tasklet waits for the body of what is no request any more
            self.listener.loop.wake(self.reader, None)
        self.busy = False
        if self.phase != CLOSED:
            self.phase = READING
        # the caller's: the application has kept nothing of it, and no tasklet-local data hangs on it that the
        # next request would find
        if Py_REFCNT(<PyObject*> request) == 1 and not has_weakrefs(<PyObject*> request):
            request._exception = None           # its traceback would keep the request's objects alive
            return (<Application> self.listener.application).take_back(request, -1 if self.phase == CLOSED else self.fd)
        return request.forget()

    cdef int queue_up(self, Loop loop) except -1:
        """The request waits for another one to end, or is told to come back later."""
        cdef Listener listener = self.listener
        if listener.queued >= listener.limits.queued:
            return self.refuse_busy(loop)
        self.phase = QUEUED
        listener.queued += 1
        listener.deadlines.start(&self.deadline, QUEUE_DEADLINE)
        return 0

    cdef int refuse_busy(self, Loop loop) except -1:
        """The client is told to come back later."""
        cdef Exchange request = self.request
        variables = request.variables()
        self.unread = not request.body.finished
        self.finish_request(request)
        return self.refuse(loop, 503, "Too many requests are at work.", variables)

    cdef int rest(self, Loop loop) except -1:
        """Nothing more to do now: waits for the client with the deadline that fits."""
        if self.phase != READING or self.closing or self.sending:
            return 0
        if self.inbox.size:
            if self.deadline.kind != HEAD_DEADLINE:
                self.listener.deadlines.start(&self.deadline, HEAD_DEADLINE)
        elif self.deadline.kind != HEAD_DEADLINE:       # a new connection keeps the one of its first head
            self.listener.deadlines.start(&self.deadline, IDLE_DEADLINE)
            if self.listener.starved:
                self.listener.offer_room()
        return self.arm(loop, READ)

    cdef Exchange next_request(self, Loop loop):
        """Reads until a head is complete; None when the client has to send more first, or is refused."""
        cdef head found
        cdef Listener listener = self.listener
        cdef Exchange request
        cdef char* data
        cdef char* borrowed
        cdef Py_ssize_t got
        cdef long used
        while True:
            if self.inbox.size:
                data = self.inbox.data + self.inbox_start
                used = listener.heads.scan(data, self.inbox.size - self.inbox_start, &listener.head_limits, self.fd, self.kept, &found)
                if used == 0:
                    got = self.receive_little()
                    if got > 0:
                        if listener.buffers.held > listener.buffers.budget:
                            listener.shed_slow_heads()
                            if self.phase == CLOSED:
                                return None
                        continue
                    if got == 0:
                        self.close_when_sent(loop)
                    return None
                if used < 0:
                    self.refuse(loop, -used)
                    return None
                request = self.begin_request(data, &found)
                self.consume(used)
                return request
            if not self.readable and not self.peer_shutdown:
                return None
            borrowed = listener.buffers.scratch
            if borrowed == NULL:                # a finaliser switched while another connection had it
                got = self.receive_more()
                if got > 0:
                    continue
                if got == 0:
                    self.close_when_sent(loop)
                return None
            listener.buffers.scratch = NULL
            got = self.receive_raw(borrowed, SCRATCH) if self.layer is None else self.receive(borrowed, SCRATCH)
            listener.buffers.scratch = borrowed
            if got <= 0:
                if got == 0:
                    self.close_when_sent(loop)
                return None
            used = listener.heads.scan(borrowed, got, &listener.head_limits, self.fd, self.kept, &found)
            if used <= 0:
                self.keep(borrowed, got)
                if listener.buffers.held > listener.buffers.budget:
                    listener.shed_slow_heads()
                    if self.phase == CLOSED:
                        return None
                continue                        # scanned again where it is kept: refused there, or completed
            listener.buffers.scratch = NULL
            try:
                request = self.begin_request(borrowed, &found)
                if got > used:
                    self.keep(borrowed + used, got - used)
            finally:
                listener.buffers.scratch = borrowed
            return request

    cdef Exchange begin_request(self, const char* data, head* found):
        """The application's exchange for a scanned head."""
        cdef Exchange request = (<Application> self.listener.application).exchange(self, data, found)
        self.listener.deadlines.stop(&self.deadline)
        self.phase = RUNNING_APP
        self.busy = True
        self.request = request
        return request

    # -- bytes that come -----------------------------------------------------------------------------------------------------

    cdef bint holds(self) noexcept:
        return self.inbox.size > 0

    cdef int keep(self, const char* data, size_t size) except -1:
        return self.listener.buffers.hold(&self.inbox, data, size)

    # -- the end -------------------------------------------------------------------------------------------------------------

    cdef int refuse(self, Loop loop, int status, str explanation=None, dict variables=None) except -1:
        """Answers what is no request, or one that will not be run, and closes."""
        cdef bytes answer
        body = f"{status} {REASONS[status]}\n{explanation or EXPLANATIONS[status]}\n"
        shown = "" if variables is not None and variables.get("REQUEST_METHOD") == "HEAD" else body
        later = f"Retry-After: {self.listener.limits.retry_seconds:.0f}\r\n" if status == 503 else ""
        answer = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode() + self.listener.response_heads.dates()
            + f"{later}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{shown}".encode()
        )
        self.listener.buffers.append(&self.out, answer, len(answer))
        if self.listener.access_log is not None:
            if variables is None:
                variables = refused_request(self.first_bytes(REFUSED_BYTES), self.remote_addr)
            self.listener.access_log.log(variables, f"{status} {REASONS[status]}", len(body), loop.now, None, None)
        return self.close_when_sent(loop)

    cdef int close_when_sent(self, Loop loop) except -1:
        self.closing = True
        if self.unread:  # or one that sends all before it reads never takes a long answer
            self.read_away(loop)
        if self.sending:
            self.listener.deadlines.start(&self.deadline, WRITE_DEADLINE)
            return 0
        if self.out.size or self.out_body is not None:
            return self.listener.flusher.add(self)
        return self.finish(loop)

    cdef int sent(self, Loop loop, bint late) except -1:
        if self.closing:
            return self.finish(loop)
        if self.phase == READING:
            if late:
                self.listener.deadlines.start(&self.deadline, IDLE_DEADLINE)
            if self.inbox.size or self.readable or self.peer_shutdown:
                loop.push(self)                 # the next request waited for this response to be sent
            elif self.listener.starved:
                self.listener.offer_room()
        return 0

    cdef int finish(self, Loop loop) except -1:
        """All is sent. Closing now would reset the connection, and perhaps destroy the answer, if the client
        has sent more."""
        if self.phase == CLOSED:
            return 0
        if self.ended or not (self.inbox.size or self.readable or self.peer_shutdown or self.unread):
            return self.close(loop, False)
        self.phase = LINGERING
        begin_lingering(self, loop)
        return self.read_away(loop)

    cdef int read_away(self, Loop loop) except -1:
        if discard(self, loop) and self.phase == LINGERING:
            return self.close(loop, False)
        return 0

    cdef bint close_idle(self, Loop loop) except -1:
        """Closes it between requests, unless bytes have come of which the loop has not told yet: they are
        answered. Returns whether it is closed.

        A proxy does not send a POST again when its connection is closed, so closing one whose request is
        there would lose it.
        """
        if self.has_bytes():
            self.readable = True
            if self.layer is not None:
                self.layer.drained = False
            loop.push(self)
            return False
        self.close(loop, False)
        return True

    cdef int close(self, Loop loop, bint reset) except -1:
        if self.phase == CLOSED:
            return 0
        if self.phase == LINGERING:
            self.listener.lingering -= 1
        if self.phase == QUEUED:
            self.finish_request(self.request)
            if self.deadline.kind == QUEUE_DEADLINE:
                self.listener.queued -= 1
            elif not self.listener.next_turn():  # it had been given the turn already
                self.listener.active -= 1
        self.phase = CLOSED
        if self.reader is not None:
            loop.wake(self.reader, None)
        return Peer.close(self, loop, reset)
