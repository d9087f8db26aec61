"""A connection, from its greeting to its lingering close. See connection.pyx."""

from libc.stdint cimport int64_t, uint32_t, uint8_t

from syncless._core.loop cimport Loop, Watcher
from syncless.http.exchange cimport Exchange, Session
from syncless.http.listener cimport DeadlineNode, Listener
from syncless.http.request cimport HeadRequest, Request
from syncless.http.stream cimport Buffers, Stream

cdef enum Phase:
    GREETING        # the bytes before HTTP: see connection.pyx
    READING         # a request head, or nothing yet
    QUEUED          # a request waits until fewer run
    RUNNING         # a request is being answered
    CARRYING        # a session of HTTP/2 carries requests, or one goes on with a response after its request
    LINGERING       # refused or closed by us; bytes that the client still sends are thrown away
    CLOSED
    PHASES

cdef extern from *:
    """
    #ifdef NDEBUG
    #define SYNCLESS_CHECKED 0
    #else
    #define SYNCLESS_CHECKED 1
    #endif
    """
    bint CHECKED "SYNCLESS_CHECKED"

cdef int check_move(uint8_t old, uint8_t new) except -1

cdef inline int move_phase(uint8_t* phase, uint8_t new) except -1:
    """The only writer of a phase. In a debug build AssertionError where the table says no."""
    if CHECKED:
        check_move(phase[0], new)
    phase[0] = new
    return 0


cdef enum:
    NOT_TLS = 3             # besides what a handshake can end in

cdef object read_proxy_header(Stream* stream, Buffers buffers, int* outcome)
cdef int begin_tls(Stream* stream, Buffers buffers, object contexts, bint plain_too) except -2

cdef HeadRequest refused_head(Listener listener, Stream* stream, str address, int port, bytes received)
cdef int write_refusal(
    Listener listener, Stream* stream, str address, int port, int reason, Request request
) except -1


cdef enum Discarded:
    ALL_FOR_NOW         # more makes an event
    ENOUGH_FOR_NOW      # there may be more, of which no event tells
    THE_LAST            # the client has closed, or sent more than it may

cdef struct Linger:     # embedded in its owner
    uint32_t bytes      # thrown away
    uint8_t progressed  # some came since the last check
    uint8_t checks      # that were made of it

cdef Discarded discard(Stream* stream, Linger* linger, Py_ssize_t most) noexcept
cdef bint too_many_linger(Listener listener) noexcept
cdef bint may_linger(Linger* linger, Listener listener) noexcept
cdef int shed_slow_heads(Listener listener) except -1


cdef enum:
    NEXT_REQUEST = 1
    ALL_REQUESTS = 2

cdef class Connection(Watcher):     # there may be many idle ones: flags are bytes, sizes 32 bits
    cdef Listener listener
    cdef Exchange exchange          # of the request that is queued or running
    cdef Session session            # of the requests that it carries
    cdef DeadlineNode deadline      # of the phase; a tasklet that waits has one of its own
    cdef Linger linger
    cdef object remote_addr         # str; "" for a UNIX socket

    # what follows goes with it to another thread, copied whole (acceptor/moving.pxi)
    cdef Stream stream              # its bytes
    cdef int remote_port            # -1: the family has none
    cdef uint8_t phase              # see connection.pxd
    cdef uint8_t trusted            # its forwarded fields count
    cdef uint8_t expects_proxy_header   # it begins with one
    cdef uint8_t counted            # for Limits.client_connections
    cdef uint8_t kept               # it has had a response and was not closed
    cdef uint8_t settled            # whether its next request, or all, are answered by this process
    cdef uint8_t unread             # a part of a body was neither read by the application nor drained

    # what follows does not: here it fills a gap
    cdef uint8_t closing            # to be closed once all is sent
    cdef uint8_t leaves             # another thread is going to take it

    # its life
    cdef int live(self, Loop loop) except -1
    cdef int greet(self, Loop loop) except -1
    cdef bint read_request(self, Loop loop) except -1
    cdef int leave(self) except -1
    cdef int run_request(self, Loop loop) except -1
    cdef int go_on(self, Loop loop, Exchange exchange) except -1
    cdef int carry(self, Loop loop) except -1
    cdef int wait_for_client(self, Loop loop) except -1
    cdef int flush(self, Loop loop) except -1
    cdef int when_flushed(self, Loop loop, bint late) except -1
    cdef int expired(self, Loop loop, int kind) except -1

    # its end
    cdef int refuse(self, Loop loop, int reason) except -1
    cdef int refuse_busy(self, Loop loop) except -1
    cdef int refuse_rest(self, Loop loop) except -1
    cdef int close_when_sent(self, Loop loop) except -1
    cdef int listen(self, Loop loop, int bits) except -1
    cdef int linger_or_close(self, Loop loop) except -1
    cdef int read_away(self, Loop loop) except -1
    cdef bint asks(self, Loop loop) except -1
    cdef bint close_idle(self, Loop loop) except -1
    cdef int close(self, Loop loop, bint reset) except -1
    cdef int close_quietly(self, Loop loop, bint reset) except -1

    cdef bint has_an_end(self) except -1

    # the parts of that
    cdef inline int move_to(self, uint8_t phase) except -1:
        return move_phase(&self.phase, phase)

    cdef bint admit(self) except -1
    cdef bint accept_proxy_header(self, header) except -1
    cdef int drop_exchange(self, Exchange exchange) except -1
