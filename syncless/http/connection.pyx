"""The life of a connection, in the loop and without a tasklet of its own. live() tells it.

    GREETING --- TLS is set up, the proxy has spoken ---> READING        both at once where the port is plain
    READING ----- head complete ----> RUNNING ---- response ended ----> READING          keep-alive
       |             |                  ^  |                               |
       |             +---> QUEUED ------+  |                               |             too many run
       | malformed, too large, too late    | cannot be kept                | idle for too long
       +--> refused --> LINGERING <--------+                               +--> CLOSED
       | the preface of HTTP/2, or a response that goes on after its request
       +--> CARRYING --- the session has ended ---> as after a response

The transitions are a table; debug builds refuse others, and count those that are made. A connection has a
Stream (its bytes), a node among the listener's deadlines and, while one is queued or running, an Exchange,
which waits for the client by its Peer.

Heads are read where they lie: in the receive buffer that all connections share, if they come in one piece.
The rest (a part of a head, a body, pipelined requests) waits in the stream's inbox, no larger than that. So
an idle connection is one small object. Responses are sent at the end of the turn: see listener/flusher.pxi.

Before HTTP comes a PROXY header from a trusted peer, then a TLS handshake, or neither. Whether a TLS port is
spoken to plainly is told by the first byte, so that a browser that speaks HTTP to it gets a response that
says so.

Answers of the server's own to bytes that are no request, or to a request that will not be run, are written
here; those for a request that has failed are exchange.pyx's, because that one has a Response.

A lingering close: bytes that a client still sends are discarded, so that the client sees the response. Fact:
closing a socket with bytes unread, or before bytes that are on their way, resets the connection. Danger: the
reset destroys the response in the client's own buffers. A client that sends all of its body before it reads
never sees it, nor does a proxy (RFC 9112, 9.6). Decision: our half is closed; the rest follows when the
client closes, falls silent, sends too slowly or has had its time. Price: a connection without a buffer and
without a tasklet for up to Limits.linger_seconds, and the time to read. So such connections are counted, and
the first to be closed for others. Guarded by tests/http/test_linger.py.
"""

import os

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
cimport cython
from libc.stdint cimport int64_t, uint8_t

from syncless._core.loop cimport Loop, Watcher
from syncless._core.poll.poller cimport HANGUP, READ, WRITE
from syncless._core.scheduler cimport Scheduler
from syncless.http.exchange cimport Application, Exchange, Session, Sessions, Upgrade, give_back
from syncless.http.listener cimport (
    AT_BUFFERED_BYTES, AT_CLIENT_CONNECTIONS, AT_LINGER_CONNECTIONS, HEAD_DEADLINE, IDLE_DEADLINE,
    LINGER_DEADLINE, NO_DEADLINE, QUEUE_DEADLINE, WRITE_DEADLINE, DeadlineNode, Listener, next_of,
)
from syncless.http.peer cimport Incoming
from syncless.http.request cimport METHOD, REFUSED_BYTES, HeadRequest, Request
from syncless.http.stream cimport (
    FAILED, FAILED_TO_SEND, READY, SENT_ALL, STALLED, WANTS_READ, WANTS_WRITE, Buffers, Input, Stream,
    TlsLayer, borrow_input, close_stream, consume_inbox, drop_unsent, first_bytes, free_stream, half_close,
    has_bytes, has_input, has_unsent, keeps_up, receive_little, receive_raw, return_input, send_pending,
    set_readable,
)
from syncless.http.wire.wire cimport (
    CHUNKED, R_FAILED, R_PLAIN_HTTP, R_STOPPING, R_TOO_MANY, R_TOO_SLOW, ROUNDS, WASTE, asks_by_head, head,
    may_linger_on, refusal_fields,
)

from syncless.http.errors import PHRASES, REFUSALS, refusal_page, status_line
from syncless.http.proxyheader import parse_proxy_header

NAMES = ("greeting", "reading", "queued", "running", "carrying", "lingering", "closed")

FOLLOWS = {
    "greeting": ("reading", "closed"),
    "reading": ("queued", "running", "carrying", "lingering", "closed"),
    "queued": ("running", "reading"),   # its turn has come; or it is refused, or closed
    "running": ("reading", "closed"),
    "carrying": ("reading", "closed"),
    "lingering": ("closed",),
    "closed": (),
}

cdef uint8_t allowed[PHASES][PHASES]
cdef long long taken[PHASES][PHASES]

for _old, _following in FOLLOWS.items():
    for _new in _following:
        allowed[<int> NAMES.index(_old)][<int> NAMES.index(_new)] = True


cdef int check_move(uint8_t old, uint8_t new) except -1:
    if old >= PHASES or new >= PHASES or not allowed[old][new]:
        raise AssertionError(f"a connection cannot go from phase {old} to phase {new}: see connection.pyx")
    taken[old][new] += 1
    return 0


# the line with which it begins (RFC 9113, 3.4); no request has it
cdef bytes HTTP_2 = b"PRI * HTTP/2.0\r\n"


def is_checked() -> bool:
    """Return whether this build refuses impossible transitions."""
    return CHECKED


def move(str old, str new) -> None:
    """A move of no connection, checked in every build. Raise AssertionError on failure."""
    check_move(NAMES.index(old), NAMES.index(new))


def times_taken(str old, str new) -> int:
    """Return how often connections of this process have gone that way, in a debug build."""
    return taken[<int> NAMES.index(old)][<int> NAMES.index(new)]


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
    """Go on with the handshake as far as it can: READY for HTTP, WANTS_READ, WANTS_WRITE, FAILED, or NOT_TLS
    where it should be. `contexts` gives the SSLContext for a new connection."""
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


cdef HeadRequest refused_head(
    Listener listener, Stream* stream, str address, int port, bytes received
):
    """For the log: the bytes of a client that are refused."""
    return HeadRequest(
        received, address, "" if port < 0 else str(port), listener.place, secure=stream.layer != NULL,
        refused=True)


cdef int write_refusal(
    Listener listener, Stream* stream, str address, int port, int reason, Request request
) except -1:
    """Put it behind what is to be sent, and log it. `reason`: of wire/refusals.h. `request`: None where the
    bytes that have come are refused."""
    cdef int status = REFUSALS[reason].status
    cdef bytes response
    cdef bytes received = first_bytes(stream, REFUSED_BYTES)
    cdef int64_t later = (listener.limits.retry_ns + 500000000) // 1000000000 if status == 503 else -1
    if listener.counters is not None:
        listener.counters.count_refused(status)
    body = refusal_page(reason).encode()
    is_head = asks_by_head(received) if request is None else request.part(METHOD) == "HEAD"
    response = (
        status_line(status).encode() + listener.response_heads.dates()
        + refusal_fields(len(body), later)
        + (b"" if is_head else body)
    )
    listener.buffers.append(&stream.out, response, len(response))
    if listener.access_log is not None:
        if request is None:
            request = refused_head(listener, stream, address, port, received)
        fields = [("Content-Type", "text/plain; charset=utf-8")]
        if later >= 0:
            fields.append(("Retry-After", str(later)))
        listener.access_log.log(
            request, f"{status} {PHRASES[status]}", len(body), listener.loop.clock.now, fields, None)
    return 0


cdef Discarded discard(Stream* stream, Linger* linger, Py_ssize_t most) noexcept:
    """Throw away what has come. `most`: bytes that may come in all."""
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
        linger.progressed = True
    return ENOUGH_FOR_NOW


cdef bint too_many_linger(Listener listener) noexcept:
    """Return whether the one that has lingered for longest must be closed for another one."""
    return (
        listener.limits.linger_connections and listener.lingering >= listener.limits.linger_connections
        and listener.deadlines.first(LINGER_DEADLINE) != NULL)


cdef bint may_linger(Linger* linger, Listener listener) noexcept:
    """Return whether it may go on until the next check, after the time of LINGER_DEADLINE."""
    cdef bint progressed = linger.progressed
    linger.checks += 1
    linger.progressed = False
    return not listener.stopping and may_linger_on(linger.checks, progressed, linger.bytes, &listener.limits)


# its cycles with an Exchange end with the request; not being tracked makes it smaller and cheaper
@cython.final
@cython.no_gc
cdef class Connection(Watcher):
    def __cinit__(self):
        self.stream.fd = -1

    def __dealloc__(self):
        if self.listener is not None:
            free_stream(&self.stream, self.listener.buffers)

    # -- its life --------------------------------------------------------------------------------------------

    cdef int live(self, Loop loop) except -1:
        """Greet, read a head, run its request, keep the connection or close it: as far as it gets now."""
        cdef Listener listener = self.listener
        cdef int left = listener.limits.pipelined
        if self.phase == GREETING:
            self.greet(loop)                    # a PROXY header, a TLS handshake
        while self.phase == READING and not self.closing and keeps_up(&self.stream):
            if left == 0:
                return loop.push(self)          # others get a turn
            left -= 1
            if not has_input(&self.stream) or not self.read_request(loop):
                break                           # the client has to send more, or is refused
            listener.requests += 1
            if listener.quota is not None:
                listener.quota.take()
            if listener.admission.begin(self.exchange.rank):
                self.run_request(loop)          # the application, the response; then keep or close
            elif listener.admission.queue(&self.deadline, self, self.exchange.rank):
                self.move_to(QUEUED)            # too many run
                if listener.bounds:
                    self.exchange.peer.watch_end()      # it need not begin if the client leaves meanwhile
            else:
                self.refuse_busy(loop)
        if self.phase == READING:
            return self.wait_for_client(loop)
        if self.phase == CARRYING:
            return self.carry(loop)
        return self.read_away(loop) if self.phase == LINGERING else 0

    cdef int on_ready(self, Loop loop, int bits) except -1:
        """Bytes have come, the client takes more, or has left. Tasklets that wait for it have been woken."""
        cdef Exchange exchange
        if bits & HANGUP:
            self.stream.peer_shutdown = True
        if bits & READ:
            set_readable(&self.stream)
        if self.phase == RUNNING:
            exchange = self.exchange                # kept: Python code may run, and the request end
            if exchange.interruptible and exchange.left():
                exchange.interrupt(loop)
            elif exchange.hears:
                exchange.hear()
        if bits & WRITE and self.stream.stalled:
            self.flush(loop)
        if self.phase == GREETING or bits & READ and (
                self.phase == READING or self.phase == LINGERING or self.phase == CARRYING):
            return self.live(loop)
        return 0

    cdef int turn(self, Scheduler loop) except -1:
        """After accept(), or many pipelined requests; or the queue's turn, which has stopped its deadline; or
        there are more frames to read or to send."""
        cdef bint carries = self.phase == CARRYING
        if self.phase == QUEUED and self.deadline.kind == NO_DEADLINE:
            self.run_request(<Loop> loop)
        if self.phase == QUEUED or self.phase == RUNNING:
            return 0
        self.live(<Loop> loop)
        return self.flush(<Loop> loop) if carries and self.phase == CARRYING else 0

    cdef bint has_an_end(self) except -1:
        if self.phase == CARRYING and self.deadline.kind == NO_DEADLINE:
            session = self.session
            return session.has_an_end()
        return (
            self.phase == CLOSED or self.deadline.kind != NO_DEADLINE or self.exchange is not None
            or self.leaves)

    cdef int expired(self, Loop loop, int kind) except -1:
        """The time of its phase is over."""
        cdef Listener listener = self.listener
        cdef Session session
        if kind == WRITE_DEADLINE:
            if listener.data_rates.may_wait(self.stream.fd):
                return listener.deadlines.start(&self.deadline, WRITE_DEADLINE, self)
            return self.close(loop, True)
        if self.phase == CARRYING:
            session = self.session
            return session.expired(loop)
        if kind == HEAD_DEADLINE and self.stream.inbox.size:
            return self.refuse(loop, R_TOO_SLOW)
        if kind == QUEUE_DEADLINE:
            listener.admission.expire()
            return self.refuse_busy(loop)
        if kind == IDLE_DEADLINE or kind == HEAD_DEADLINE:     # nobody waits for an answer
            self.close_idle(loop)
            return 0
        if kind == LINGER_DEADLINE and may_linger(&self.linger, listener):
            return listener.deadlines.start(&self.deadline, LINGER_DEADLINE, self)
        return self.close(loop, False)

    cdef int forked(self, Loop loop) except -1:
        """The connection is the parent's. The part of a body that has come can still be read."""
        cdef Stream before = self.stream
        self.stream.gone = True
        self.stream.inbox.data = NULL           # else it would be released
        self.stream.inbox.size = self.stream.inbox.room = 0
        self.close_quietly(loop, False)
        self.stream.inbox = before.inbox
        self.stream.inbox_start = before.inbox_start
        return 0

    cdef int loop_ended(self, Loop loop) except -1:
        self.close_quietly(loop, self.exchange is not None or self.session is not None)
        return 0 if self.exchange is None else self.drop_exchange(self.exchange)

    cdef int close_quietly(self, Loop loop, bint reset) except -1:
        """Close, and tell nobody."""
        if self.exchange is not None:
            self.exchange.interruptible = self.exchange.hears = False
        return self.close(loop, reset)

    # -- greeting --------------------------------------------------------------------------------------------

    cdef int greet(self, Loop loop) except -1:
        cdef Listener listener = self.listener
        cdef int outcome = READY
        if self.expects_proxy_header:
            header = read_proxy_header(&self.stream, listener.buffers, &outcome)
            if header is not None and not self.accept_proxy_header(header):
                outcome = FAILED
        if outcome == READY and listener.certificates is not None:
            outcome = begin_tls(&self.stream, listener.buffers, listener.certificates, listener.plain_http)
        if outcome == WANTS_READ or outcome == WANTS_WRITE:
            return self.listen(loop, READ if outcome == WANTS_READ else WRITE)
        if outcome == FAILED or self.phase == CLOSED:
            return self.close(loop, False)
        self.move_to(READING)
        self.stream.readable = True             # the layer may have the first request already
        listener.deadlines.start(&self.deadline, HEAD_DEADLINE, self)
        if outcome == NOT_TLS:
            return self.refuse(loop, R_PLAIN_HTTP)
        return 0

    cdef bint accept_proxy_header(self, header) except -1:
        """The client is the one that the header announces. Whether it may have another connection."""
        self.expects_proxy_header = False
        if header.source is not None:
            self.remote_addr, self.remote_port = header.source
            self.trusted = self.listener.trusted(self.remote_addr)
        return self.admit()

    cdef bint admit(self) except -1:
        """Count it for its client's address, if it is known yet. Whether the limit allows it."""
        if self.listener.clients is None or self.trusted or self.expects_proxy_header or self.remote_port < 0:
            return True
        self.counted = self.listener.clients.enter(self.remote_addr)
        if not self.counted:
            self.listener.reached.note(AT_CLIENT_CONNECTIONS, True)
        return self.counted

    # -- reading a request -----------------------------------------------------------------------------------

    cdef bint read_request(self, Loop loop) except -1:
        """Return whether a request is there, its head whole; else the client sends more, is refused or has
        left."""
        cdef Listener listener = self.listener
        cdef head found
        cdef Incoming incoming = Incoming(
            <PyObject*> listener, <PyObject*> self, &self.stream, <PyObject*> self.remote_addr,
            self.remote_port, self.trusted, NULL, &found, self.stream.fd)
        cdef Exchange exchange = None
        cdef Session session = None
        cdef Input input
        cdef Py_ssize_t got = 0
        cdef long size, used = 0                # bytes of the head; negative: why it is refused
        input.size = 0
        while used == 0:
            got = borrow_input(&self.stream, listener.buffers, &input)
            if got <= 0:
                break
            try:
                used = listener.heads.scan(     # a connection that had a response is likely to be kept
                    input.data, input.size, &listener.limits.head, self.stream.fd, self.kept,
                    not self.trusted, &found)
                if used > 0:
                    size, used = used, -<int> R_FAILED     # if that raises
                    incoming.data = input.data
                    exchange = (<Application> listener.application).exchange(&incoming)
                    used = size
            finally:
                return_input(&self.stream, listener.buffers, &input, used if exchange is not None else 0)
                if used == -<int> R_FAILED:
                    self.refuse(loop, R_FAILED)
        if exchange is not None:
            self.exchange = exchange
            if self.phase == READING:
                return True
            self.drop_exchange(exchange)          # closed while Python code ran
        elif used < 0:
            if listener.http2 is not None and (     # whoever has asked for it in the handshake must begin it
                    self.stream.layer != NULL or first_bytes(&self.stream, len(HTTP_2)) == HTTP_2):
                if listener.send_away is not None:
                    self.leave()
                    return False
                sessions = <Sessions> listener.http2
                session = sessions.begin(&incoming)
            if session is None:
                self.refuse(loop, -used)
            elif self.phase == READING:         # else closed while Python code ran
                self.session = session
                self.move_to(CARRYING)
                listener.deadlines.stop(&self.deadline)
        elif used > 0 and has_unsent(&self.stream):
            self.flush(loop)                    # comes back here when that is sent
        elif used > 0 and listener.send_away is not None:
            self.leave()
        elif used > 0:
            try:
                (<Application> listener.application).pass_on(loop, &incoming)
            finally:
                self.close(loop, False)
        elif got == 0:
            self.close_when_sent(loop)
        elif listener.all_held() > listener.buffers.budget:
            shed_slow_heads(listener)
        return False

    cdef int leave(self) except -1:
        """Another thread has the application for its bytes, and will take it. It has no deadline until then:
        that one may be held."""
        if not self.leaves:
            self.listener.deadlines.stop(&self.deadline)
            self.leaves = True
            self.listener.send_away(self)
        return 0

    # -- running it ------------------------------------------------------------------------------------------

    cdef int run_request(self, Loop loop) except -1:
        """Run the request, which is counted already, and says what becomes of the connection."""
        cdef Listener listener = self.listener
        cdef Exchange exchange = self.exchange
        self.move_to(RUNNING)
        listener.deadlines.stop(&self.deadline)
        exchange.started = loop.clock.now
        loop.adopt(exchange)
        exchange.run_inline(loop)                # may park; others run meanwhile
        listener.admission.end(exchange.rank, exchange.started)
        exchange.count()
        self.unread = not exchange.body.framing.ended or (
            exchange.upgraded and not (<Upgrade> exchange.handler).over)
        if exchange.held is not None:
            return self.go_on(loop, exchange)
        self.drop_exchange(exchange)
        if self.stream.torn:
            self.close(loop, True)
        if self.phase == CLOSED:
            drop_unsent(&self.stream, listener.buffers)        # written after the close
            return 0
        self.kept = True
        if not exchange.response.keep_alive:
            return self.close_when_sent(loop)
        self.unread = False
        return listener.flusher.add(self) if has_unsent(&self.stream) else 0

    cdef int go_on(self, Loop loop, Exchange exchange) except -1:
        """The request has ended, and its response goes on, by a session."""
        cdef Session session = exchange.held
        cdef bint goes_on = exchange.response.complete
        cdef bint chunked = exchange.response.framing == CHUNKED
        cdef bint upgraded = exchange.upgraded
        exchange.held = None
        self.drop_exchange(exchange)            # which may run finalisers
        if self.phase == CLOSED or self.stream.torn or not goes_on:
            drop_unsent(&self.stream, self.listener.buffers)
            return self.close(loop, True)
        if not upgraded:                        # else they are of the other protocol
            consume_inbox(
                &self.stream, self.listener.buffers, self.stream.inbox.size - self.stream.inbox_start)
        self.session = session
        self.move_to(CARRYING)
        try:
            session.take_over(self, chunked)
        except BaseException:
            self.close(loop, True)
            raise
        return self.listener.flusher.add(self) if has_unsent(&self.stream) else 0

    cdef int carry(self, Loop loop) except -1:
        """The session reads what has come, until the client leaves or nothing more is to be carried."""
        cdef Session session = self.session
        try:
            session.live(loop)
            if session.over and self.phase == CARRYING:
                session.fill(loop)
        except BaseException:
            self.close(loop, True)
            raise
        if not session.over or self.phase != CARRYING:
            return 0
        session.lost(loop)                      # which may run finalisers, and they may switch
        self.session = None
        if self.phase != CARRYING:
            return 0
        self.move_to(READING)
        self.listener.deadlines.stop(&self.deadline)
        self.unread = not session.quiet         # the client may still send frames
        return self.close_when_sent(loop)

    cdef int drop_exchange(self, Exchange exchange) except -1:
        """The request has ended, or will never begin. Only the caller and the connection refer to it."""
        self.exchange = None
        exchange.end()
        if self.listener.data_rates.count and not self.stream.stalled:
            self.listener.data_rates.forget(self.stream.fd)
        if self.phase == QUEUED or self.phase == RUNNING:
            self.move_to(READING)
        return give_back(<Application> self.listener.application, exchange, self.stream.fd)

    cdef int refuse_busy(self, Loop loop) except -1:
        """The client is told to come back later."""
        cdef Exchange exchange = self.exchange
        self.unread = not exchange.body.framing.ended
        write_refusal(
            self.listener, &self.stream, self.remote_addr, self.remote_port, R_TOO_MANY,
            exchange.request)
        self.drop_exchange(exchange)
        return self.close_when_sent(loop)

    cdef int refuse_rest(self, Loop loop) except -1:
        """The server stops: a part of a head is not waited for. The client gets a response, and no time to
        send on."""
        write_refusal(
            self.listener, &self.stream, self.remote_addr, self.remote_port, R_STOPPING, None)
        if self.phase != READING:               # closed while Python code ran
            return 0
        consume_inbox(&self.stream, self.listener.buffers, self.stream.inbox.size - self.stream.inbox_start)
        return self.close_when_sent(loop)

    # -- waiting for the client ------------------------------------------------------------------------------

    cdef int listen(self, Loop loop, int bits) except -1:
        """The client's next event gives it a turn. Where the system cannot wait for one more client, this one
        is lost."""
        if self.stream.fd < 0 or not bits & ~loop.fds.entries[self.stream.fd].armed:
            return 0
        try:
            return loop.fds.arm(self.stream.fd, bits)
        except OSError as error:
            self.listener.complain(
                f"cannot wait for a client: {os.strerror(error.errno)}; closing its connection. "
                "Raise fs.epoll.max_user_watches, or set the limit `connections`")
        return self.close(loop, True)

    cdef int wait_for_client(self, Loop loop) except -1:
        """Nothing more to do now: the next event makes it go on, with the deadline that fits."""
        cdef int kind
        if self.closing or self.stream.stalled or self.leaves:
            return self.read_away(loop) if self.closing and self.unread else 0
        if self.deadline.kind != HEAD_DEADLINE:         # a new connection keeps the one of its first head
            kind = HEAD_DEADLINE if self.stream.inbox.size else IDLE_DEADLINE
            self.listener.deadlines.start(&self.deadline, kind, self)
        if self.listener.starved:                       # a silent one may be closed, too: evict_one()
            self.listener.offer_room()
        return self.listen(loop, READ)

    cdef int flush(self, Loop loop) except -1:
        """Send what is pending, as far as the client takes it; the rest when it is ready."""
        cdef Listener listener = self.listener
        cdef Stream* stream = &self.stream
        cdef Session session
        cdef bint late = stream.stalled
        cdef size_t before = stream.out_sent
        cdef int outcome
        if self.exchange is not None and (stream.gone or loop.fds.entry(stream.fd).writers.first != NULL):
            return 0                            # a tasklet that sends sees to it
        if self.phase == CARRYING:
            session = self.session              # kept: its frames may come to be flushed, and this closed
            session.fill(loop)
            if self.phase != CARRYING:
                return 0
        outcome = FAILED_TO_SEND if stream.gone else send_pending(stream, listener.buffers)
        if outcome == SENT_ALL:
            if late:
                listener.data_rates.forget(stream.fd)
            return self.when_flushed(loop, late)
        if outcome != STALLED:
            return self.close(loop, False)
        listener.data_rates.stalled(stream.fd, stream.out_sent - before)
        if listener.data_rates.too_slow(stream.fd):
            return self.close(loop, True)
        if self.exchange is None:               # else its tasklet has deadlines of its own
            listener.deadlines.start(&self.deadline, WRITE_DEADLINE, self)
        return self.listen(loop, WRITE)

    cdef int when_flushed(self, Loop loop, bint late) except -1:
        """All is sent. `late`: the client was slow."""
        cdef Session session
        if self.closing:
            return self.linger_or_close(loop)
        if self.phase == READING:
            if late:
                self.listener.deadlines.start(&self.deadline, IDLE_DEADLINE, self)
            if has_input(&self.stream):
                loop.push(self)                 # the next request waited for this response to be sent
            elif self.listener.starved:
                self.listener.offer_room()
        elif self.phase == CARRYING:
            session = self.session
            session.sent_all(loop)
        return 0

    # -- the end ---------------------------------------------------------------------------------------------

    cdef int refuse(self, Loop loop, int reason) except -1:
        """Answer what is no request, and close."""
        write_refusal(self.listener, &self.stream, self.remote_addr, self.remote_port, reason, None)
        return self.close_when_sent(loop)

    cdef int close_when_sent(self, Loop loop) except -1:
        self.closing = True
        if self.unread:  # or one that sends all before it reads never takes a long answer
            self.read_away(loop)
        if self.stream.stalled:
            return self.listener.deadlines.start(&self.deadline, WRITE_DEADLINE, self)
        if has_unsent(&self.stream):
            return self.listener.flusher.add(self)
        return self.linger_or_close(loop)

    cdef int linger_or_close(self, Loop loop) except -1:
        """All is sent. Closing with bytes of the client unread would reset the connection."""
        cdef Listener listener = self.listener
        if self.phase == CLOSED or self.phase == LINGERING:     # it was still in the list of those to flush
            return 0
        if self.stream.ended or not (has_input(&self.stream) or self.unread):
            return self.close(loop, False)
        if too_many_linger(listener):
            listener.reached.note(AT_LINGER_CONNECTIONS, True)
            oldest = <Connection> listener.deadlines.first(LINGER_DEADLINE).place.owner
            oldest.close(loop, False)
        self.move_to(LINGERING)
        listener.lingering += 1
        listener.deadlines.start(&self.deadline, LINGER_DEADLINE, self)
        self.linger.progressed = True
        half_close(&self.stream, listener.buffers)
        return self.read_away(loop)

    cdef int read_away(self, Loop loop) except -1:
        """Throw away what the client still sends, so that it sees the response."""
        cdef int outcome
        if self.phase == CLOSED:
            return 0
        outcome = discard(&self.stream, &self.linger, self.listener.limits.linger_bytes)
        if outcome == ALL_FOR_NOW:
            return self.listen(loop, READ)
        if outcome != THE_LAST:
            return loop.push(self)
        return self.close(loop, False) if self.phase == LINGERING else 0

    cdef bint close_idle(self, Loop loop) except -1:
        """Close it, unless a request has come: a proxy does not repeat a POST. Whether it is closed."""
        return not self.asks(loop) and self.close(loop, False) == 0

    cdef bint asks(self, Loop loop) except -1:
        """Return whether a request has come, which gets a turn."""
        if not has_bytes(&self.stream):
            return False
        set_readable(&self.stream)
        loop.push(self)
        return True

    cdef int close(self, Loop loop, bint reset) except -1:
        """Close now, once. `reset`: the client must not take what it has for the whole. A request that runs
        hears that its client has left."""
        cdef Listener listener = self.listener
        cdef Exchange running = self.exchange if self.phase == RUNNING else None
        cdef Session session
        if self.phase == CLOSED:
            return 0
        if self.phase == LINGERING:
            listener.lingering -= 1
        if self.phase == QUEUED:
            listener.admission.leave(&self.deadline)
            self.move_to(READING)
            self.drop_exchange(self.exchange)
        elif self.phase == CARRYING:
            session = self.session
            session.lost(loop)
            self.session = None
        if self.phase == CLOSED:                # by a tasklet or a finaliser that ran meanwhile
            return 0
        self.move_to(CLOSED)
        listener.deadlines.stop(&self.deadline)
        (<Application> listener.application).let_go(self.stream.fd)
        listener.let_go(self.stream.fd, self.remote_addr if self.counted else None)
        self.stream.torn |= reset
        close_stream(&self.stream, listener.buffers, loop)
        if running is not None and running.interruptible:
            running.interrupt(loop)
        elif running is not None and running.hears:
            running.hear()
        Py_DECREF(self)                         # the reference of being open
        return 0


cdef int shed_slow_heads(Listener listener) except -1:
    """Too much is buffered: cuts off the connections that have taken the longest for a request's head."""
    cdef Connection connection = None, following = owner_of(listener.deadlines.first(HEAD_DEADLINE))
    while following is not None and listener.all_held() > listener.buffers.budget:
        connection, following = following, owner_of(next_of(&following.deadline))
        if connection.stream.inbox.size or connection.phase == CARRYING:
            listener.reached.note(AT_BUFFERED_BYTES, True)
            connection.close(listener.loop, False)      # others may run, and the following one go on
            if following is not None and following.deadline.kind != HEAD_DEADLINE:
                following = owner_of(listener.deadlines.first(HEAD_DEADLINE))
    return 0


cdef Connection owner_of(DeadlineNode* node):
    return None if node == NULL else <Connection> node.place.owner
