"""What the connections of a listening socket share. How it works is told in listener.pyx and the
files of listener/."""

from cpython.object cimport PyObject
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from syncless._core.cpython.threadlocal cimport Slots
from syncless._core.linked cimport LinkedList, Node
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable
from syncless._core.timers cimport Timer
from syncless.http.log.loglines cimport AccessLog
from syncless.http.requestheads cimport RequestHeads
from syncless.http.stream cimport Buffer, Buffers
from syncless.http.wire.wire cimport BUCKETS, data_rate, limits


cdef class Quota:
    cdef long long left         # requests
    cdef public object used_up  # called when there are none left

    cdef inline int take(self) except -1:
        """A request begins."""
        self.left -= 1
        if self.left == 0:
            self.used_up()
        return 0


cdef enum:
    NO_DEADLINE = 0
    HEAD_DEADLINE = 1       # a request head, from its first byte to its end
    IDLE_DEADLINE = 2       # between requests
    WRITE_DEADLINE = 3      # without progress in sending
    LINGER_DEADLINE = 4     # until the next look at a refused client that may still send
    GREETING_DEADLINE = 5   # a PROXY header and a TLS handshake, from the connection's start
    QUEUE_DEADLINE = 6      # a request that waits for its turn
    DRAIN_DEADLINE = 7      # as LINGER_DEADLINE, of a stream of HTTP/2, whose connection stays
    BEAT_DEADLINE = 8       # until the next sign of life of a held stream
    KINDS = 9

cdef struct DeadlineNode:       # embedded in its owner, which stops it before it ends; all zero: not started
    Node place                  # in the list of its kind, in the order of expiry; first, for next_of()
    int64_t when                # ns, by the loop's clock
    uint8_t kind                # NO_DEADLINE: in no list
    uint8_t rank                # of a request that waits for its turn

cdef struct DeadlineList:
    LinkedList nodes
    int64_t length              # ns from start to expiry

# told that the owner's deadline has passed, which runs no more; may start and stop any, and let the owner end
ctypedef int (*expire_t)(Loop loop, object owner, int kind) except -1

cdef class Deadlines:
    cdef Loop loop
    cdef expire_t expire
    cdef DeadlineList lists[KINDS]
    cdef Timer timer            # set to the earliest deadline, or earlier
    cdef void allow(self, int kind, int64_t ns) noexcept

    cdef inline DeadlineNode* last(self, int kind) noexcept:
        return <DeadlineNode*> self.lists[kind].nodes.last

    cdef inline DeadlineNode* first(self, int kind) noexcept:
        """The node that expires next; NULL if there is none."""
        return <DeadlineNode*> self.lists[kind].nodes.first

    cdef int start(self, DeadlineNode* node, int kind, object owner) except -1
    cdef int go_on(self, DeadlineNode* node, int kind, int64_t when, object owner) except -1
    cdef void stop(self, DeadlineNode* node) noexcept
    cdef int64_t began(self, DeadlineNode* node) noexcept
    cdef Py_ssize_t count(self) noexcept
    cdef Py_ssize_t count_kind(self, int kind) noexcept
    cdef int due_by(self, int64_t when) except -1
    cdef int64_t expire_due(self, int64_t now) noexcept
    cdef void close(self) noexcept


cdef inline DeadlineNode* next_of(DeadlineNode* node) noexcept:
    """The next one in its list; NULL at the end."""
    return <DeadlineNode*> node.place.after


cdef enum:
    FLUSH_COUNT = 8             # owners that are flushed without waiting for the end of the turn
    FLUSH_AFTER = 500000        # ns after which the next one is

# sends what the owner has to send; may add further owners; negative: an exception is set
ctypedef int (*flush_t)(Loop loop, object owner) noexcept

cdef class Flusher(Runnable):
    cdef Loop loop
    cdef flush_t flush
    cdef PyObject* pending[FLUSH_COUNT]     # owned; never full between two calls
    cdef int count
    cdef int64_t since                      # when the first of them was added, ns
    cdef int add(self, object owner) except -1
    cdef int flush_all(self) except -1


cdef class DataRate:
    cdef data_rate state
    cdef void check(self, int fd) noexcept


cdef class DataRates:
    cdef Loop loop          # for its clock
    cdef const limits* limits       # of its listener
    cdef dict by_fd
    cdef Py_ssize_t count
    cdef int stalled(self, int fd, Py_ssize_t more) except -1
    cdef int rested(self, int fd) except -1
    cdef int sent_more(self, int fd, Py_ssize_t n) except -1
    cdef int forget(self, int fd) except -1
    cdef bint too_slow(self, int fd) except -1
    cdef bint may_wait(self, int fd) except -1


@cython.final
cdef class ResponseHeads:
    # the Server and Date fields
    cdef int64_t dated              # seconds since 1970
    cdef bytes date_block
    # status lines
    cdef dict status_lines          # status -> (line, code)
    cdef object read_status         # the last that status_code() has read
    cdef bytes status_line          # of it
    cdef int code                   # of it
    # the last head
    cdef object status
    cdef int number                 # the status, if it was given as a number
    cdef tuple headers              # None: nothing is remembered
    cdef bytes head_dates           # the block that it has
    cdef bytes head                 # with the empty line at its end
    cdef int64_t length             # its Content-Length, or -1
    cdef bint closes                # it said Connection: close

    cdef int status_code(self, object status) except -1
    cdef bytes dates(self)
    cdef bint is_last(self, object status, list headers) except -1
    cdef bint is_same(self, int status, object headers) except -1
    cdef int remember(self, object status, list headers, Buffer* head, int64_t length, bint closes) except -1


cdef enum:
    NOT_RUN = -1            # as the start of a request that has had its turn, and did not take it
    ALWAYS = 0              # ranks, as http/priorities.py has them
    NORMAL = 2
    RANKS = 4


cdef enum:
    # numbers of the limits of which the error log tells when they are reached, as in REACHED
    AT_CONNECTIONS = 0
    AT_CLIENT_CONNECTIONS = 1
    AT_REQUESTS = 2
    AT_QUEUED = 3
    AT_QUEUE_SECONDS = 4
    AT_BUFFERED_BYTES = 5
    AT_LINGER_CONNECTIONS = 6
    AT_EVENT_BYTES = 7
    AT_STREAMS = 8
    TOLD_LIMITS = 9

cdef struct Episode:
    int64_t began, last         # ns, by the loop's clock; began 0: it is not reached
    long long waited, refused
    bint told


cdef class Reached:
    cdef Loop loop
    cdef object limits          # a Limits
    cdef object error_log
    cdef Episode[TOLD_LIMITS] episodes
    cdef Timer timer            # set while a limit is reached
    cdef void note(self, int limit, bint refused) noexcept
    cdef void look_at(self, int64_t when) noexcept
    cdef int tell(self, int64_t now, bint all_end) except -1
    cdef int log(self, int limit, const Episode* past) except -1
    cdef int close(self) except -1


cdef class Admission:
    cdef Deadlines deadlines
    cdef Reached reached
    cdef Py_ssize_t most_active         # Limits.requests, or what the rule says now; 0: any number
    cdef Py_ssize_t most_queued         # Limits.queued
    cdef readonly object rule           # AutoLimit, or None: most_active stays
    cdef object priority                # Priorities, or None: all requests are alike
    cdef list siblings                  # None, or the listeners with which it is one account
    cdef readonly Py_ssize_t active     # requests that run
    cdef readonly Py_ssize_t exempt     # those of them that do not count
    cdef readonly Py_ssize_t queued     # those that wait, in the order of QUEUE_DEADLINE's list
    cdef Py_ssize_t attention           # as queued, and 1 more where each end is of interest
    cdef readonly long long refused     # requests that had no turn
    cdef Timer timer                    # for the next look at those that wait, where the rule says how long

    cdef inline bint begin(self, uint8_t rank) noexcept:
        """Whether a request may run now; it counts then."""
        if self.most_active and not self.may_begin(rank):
            return False
        self.active += 1
        return True

    cdef inline int end(self, uint8_t rank, int64_t started) except -1:
        """A request has ended that was started then: its turn goes to one that waits."""
        if self.attention:
            return self.end_with_care(rank, started)
        self.active -= 1
        return 0

    cdef bint may_begin(self, uint8_t rank) noexcept
    cdef bint is_full(self) noexcept
    cdef bint is_queue_full(self) noexcept
    cdef int end_with_care(self, uint8_t rank, int64_t started) except -1
    cdef int set_limit(self, Py_ssize_t most) except -1
    cdef int exempt_now(self, uint8_t* rank) except -1
    cdef int offer(self) except -1
    cdef bint queue(self, DeadlineNode* node, Runnable owner, uint8_t rank) except -1
    cdef int expire(self) except -1
    cdef int leave(self, DeadlineNode* node) except -1
    cdef int take_out(self, DeadlineNode* node) except -1
    cdef DeadlineNode* next_one(self) except? NULL
    cdef int waits_no_more(self) except -1
    cdef bint hand_over(self) except -1
    cdef int shed(self) except -1
    cdef DeadlineNode* late_one(self, int64_t now) except? NULL


cdef enum:
    # where each begins in a row of cells
    REQUESTS = 64           # answered requests, by status; 0: the client got no answer
    REFUSED = 664           # answers of the server itself, to input that it did not run, by status
    LATENCY = 1264          # answered requests, by bucket
    LATENCY_NS = 1281       # of all of them together
    QUEUED = 1282           # requests of which a proxy tells when it took them, by bucket of their wait
    QUEUED_NS = 1299        # of all of them together
    HTTP2_RESETS = 1304     # streams that the server has reset, by the error code of RFC 9113, 7
    HTTP2_GOAWAYS = 1320    # connections of HTTP/2 that it has ended for an error, by that
    HTTP2_CODES = 15        # the last for all that the RFC does not name
    ROW = 1336              # cells

cdef int64_t BOUNDS[BUCKETS]


cdef class Counters:
    cdef Py_buffer memory
    cdef int64_t* cells

    cdef inline void count_request(self, int code, int64_t ns) noexcept:
        """A request has been answered after `ns`; negative: its time was not measured."""
        self.cells[REQUESTS + code] += 1
        if ns >= 0:
            self.count_time(LATENCY, ns)

    cdef inline void count_queued(self, int64_t ns) noexcept:
        """A request has waited for `ns` before it began."""
        self.count_time(QUEUED, ns)

    cdef inline void count_time(self, int buckets, int64_t ns) noexcept:
        """`buckets`: where they begin; their sum lies behind them."""
        cdef int bucket = 0
        while ns > BOUNDS[bucket]:
            bucket += 1
        self.cells[buckets + bucket] += 1
        self.cells[buckets + BUCKETS] += ns

    cdef inline void count_refused(self, int code) noexcept:
        self.cells[REFUSED + code] += 1

    cdef inline void count_http2(self, int cells, uint32_t error) noexcept:
        """`cells`: HTTP2_RESETS or HTTP2_GOAWAYS."""
        self.cells[cells + min(error, <uint32_t> HTTP2_CODES - 1)] += 1


cdef class Listener:
    # the instructions for its connections
    cdef readonly object application    # an Application
    cdef limits limits
    cdef object certificates            # None, or a callable that gives the SSLContext for a new connection
    cdef public object http2            # None, or Sessions
    cdef public object send_away        # None, or called with a connection that its application cannot answer
    cdef bint plain_http                # HTTP on a TLS port, told by its first byte
    cdef object trusted                 # None, or called with an address: its PROXY header and fields count
    cdef bint proxy_protocol            # trusted peers begin with a PROXY header
    cdef object trusted_fields          # those that trusted peers set, in lower case
    cdef AccessLog access_log           # or None
    cdef public Counters counters       # or None
    cdef public Quota quota             # or None
    cdef readonly object error_log      # an ErrorLog
    cdef object slow_requests           # SlowRequests, or None
    cdef int64_t slow_ns                # a request that took as long is one of them; NEVER
    cdef readonly str on_hangup         # one of ON_HANGUP
    cdef int recorded_waits             # of each request
    cdef double cancel_seconds          # for each query that is interrupted
    cdef bint request_ids               # each request is given its IDs before it begins
    cdef Slots request_slots            # those of the server; None: requests take none
    cdef object context                 # copied for each request: these Slots are the only variable in it
    cdef object tracer                  # makes spans of requests (server/otel/tracer.py), or None
    cdef bint parents_count             # a request's traceparent says of which trace it is,
    cdef bint parents_decide            # and whether it is traced
    cdef bint tells_all                 # the tracer is told of the others, too
    cdef bint tells_start               # a trusted peer says when it took a request
    cdef bint tells_timeout             # or how long it will wait for the response
    cdef bint pass_deadline             # requests tell services that they call when they will end
    cdef double share                   # of the requests that are traced, where chance decides
    cdef int64_t until_traced           # requests, the next that is traced included
    cdef uint64_t random                # never 0
    cdef bint always_bounds             # any of these, or a request may be ended before its time
    cdef bint bounds                    # or it may be traced
    cdef readonly bint stopping         # every response closes its connection
    # what they share
    cdef public tuple place             # SERVER_NAME, and SERVER_PORT or ""
    cdef Loop loop
    cdef Deadlines deadlines
    cdef Buffers buffers                # for received bytes and bytes to send
    cdef Flusher flusher                # those that have something to send
    cdef Reached reached                # tells of limits that are reached
    cdef Admission admission            # requests that run and those that wait
    cdef object clients                 # Clients; None if nothing bounds their connections
    cdef RequestHeads heads             # the application's
    cdef ResponseHeads response_heads   # the parts that they share
    cdef DataRates data_rates           # of clients that are slow to take a response
    # how many there are
    cdef list siblings                  # None, or all listeners of its socket, in several threads
    cdef readonly Py_ssize_t connections
    cdef readonly long long requests    # since the start
    cdef readonly long long accepted    # connections since the start
    cdef Py_ssize_t lingering           # connections
    cdef Py_ssize_t http2_connections
    cdef Py_ssize_t http2_streams       # requests that they carry, which run or wait
    cdef long long http2_requests       # of these since the start, answered
    cdef long long hangups              # requests that were told that their clients had left
    cdef Py_ssize_t held_streams        # connections whose responses go on after their requests
    cdef long long held_dropped         # of these, since the start, whose clients were too slow
    # room for more of them
    cdef Runnable acceptor              # while connections are accepted
    cdef dict complaints                # about what the system is short of: ns, not before then again
    cdef bint starved                   # a connection waits in the backlog because there are too many

    cdef inline bint draw(self) noexcept:
        """Whether to trace a request that is of no other trace."""
        self.until_traced -= 1
        return self.until_traced == 0 and self.draw_gap()

    cdef bint draw_gap(self) noexcept
    cdef Py_ssize_t all_connections(self) noexcept
    cdef int64_t all_held(self) noexcept
    cdef int offer_room(self) except -1
    cdef int complain(self, str words) except -1
    cdef int let_go(self, int fd, str client) except -1
