"""Listener: the options and parts that the connections of one listening socket share. No state is global:
several servers live in one process.

Its parts know nothing of connections:

    Deadlines       a node in each owner, a list for each kind, one timer for all. Those of a kind have equal
                    lengths: each list is in the order of expiry, starting one is a relink, and only the first
                    of each list can be due
    Flusher         the end of a turn, when everything is sent
    DataRates       how fast a client takes an answer for which the server has to wait
    ResponseHeads   the common parts of response heads, made once
    Admission       how many requests run at a time, and which one is next
    Quota           how many requests the listeners of a server may begin before it is replaced
    Counters        how many requests have been answered, with which status, and how long they took

The responses of one turn of the loop are sent together at its end, at the latest after FLUSH_COUNT responses
or FLUSH_AFTER ns: the application's code and data stay in the processor's caches, and so do the kernel's. A
handler that takes longer than that holds up those that were finished before it in the same turn, so before a
slow application is called everything is sent.

A DataRate exists from the first moment at which the kernel takes no more until the answer is sent or the
connection closed, so a client that keeps up costs nothing. Fact: the kernel tells of room in a socket only
when a third of its buffer is free, which may be a megabyte. Danger: a client that reads 50 kB each second
seems to stand still for twenty. Decision: the bytes that wait in the socket are asked for (SIOCOUTQ), every
few seconds. Price: a system call when a client has made us wait for longer than Limits.write_grace_seconds.
Where there is none, what the kernel takes counts. Test:
tests/http/test_client_limits.py::test_slow_client_goes_on_if_it_may

Status lines are kept; the Server and Date fields are made anew each second; and the last head is kept whole.
So an application whose headers are constants pays for checking and writing them once a second, when the date
changes. That is by the system's time and at each answer: the loop's clock stands still while an application
computes, and does not notice when the system's time is set. C's time() is no system call.

    begin() ----------------------------------> runs --------> end()
       | too many run                            ^
       +--> queue() --- another one has ended ---+
                 |    too many wait: it is refused
                 +--> expire(): it has waited for too long
                 +--> leave(): its connection is closed

Waiting requests stand in the list of QUEUE_DEADLINE, the longest waiting first, so the queue is no list of
its own. Each is a Runnable that owns a DeadlineNode: it is pushed when its turn has come, and counts already.

Counters are cells of 64 bits in memory that the caller gives, so that it can be shared: other processes read
it at any time, and the counts outlive the process. Counting a request is a few additions and one look at the
clock. The first FREE cells of a row are the caller's own. Tested by tests/status/test_counters.py.

Next to read: acceptor.pyx, which makes connections, and connection.pyx.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
cimport cython
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcmp, memcpy
from libc.time cimport time as seconds_now

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.linked cimport LinkedList, append, insert_behind, remove
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable, Scheduler
from syncless._core.threadloop cimport get_loop
from syncless._core.timers cimport timer_init
from syncless.http.stream cimport Buffer, Buffers
from syncless.http.wire.wire cimport (
    BUCKETS, CODES, COMPLAIN_NS, data_rate_check, data_rate_counts, data_rate_is_too_slow, data_rate_may_wait,
    dates_at,
)

from contextvars import Context

from syncless._core.cpython.threadlocal import use_slots
from syncless.http.clients import Clients
from syncless.http.errors import HTTP2_ERRORS, ON_HANGUP, PHRASES
from syncless.http.limits import limit_values
from syncless.http.trust import REQUEST_START


cdef class Quota:
    """Quota(requests, used_up): calls ``used_up`` when the last of them begins, and never again."""

    def __init__(self, long long requests, used_up):
        if requests < 1:
            raise ValueError(f"a quota is one request at least, not {requests}")
        self.left = requests
        self.used_up = used_up

    def take_many(self, long long requests) -> None:
        """So many have begun elsewhere."""
        cdef long long before = self.left
        self.left -= requests
        if before > 0 and self.left <= 0:
            self.used_up()


cdef void look(void* owner) noexcept:
    """The timer's callback."""
    cdef Deadlines deadlines = <Deadlines> owner
    cdef int64_t next_one = deadlines.expire_due(monotonic_ns())
    if next_one >= 0:
        try:
            deadlines.due_by(next_one)
        except MemoryError as error:
            deadlines.loop.report("a connection's deadline", error)


@cython.final
@cython.no_gc_clear      # __dealloc__ needs the loop
cdef class Deadlines:
    def __cinit__(self, Loop loop not None):
        self.loop = loop
        timer_init(&self.timer, look, <void*> self)

    def __dealloc__(self):
        if self.timer.index >= 0:
            self.loop.timers.remove(&self.timer)

    cdef void allow(self, int kind, int64_t ns) noexcept:
        """How long deadlines of a kind are. Set before the first of them is started."""
        self.lists[kind].length = ns

    cdef int start(self, DeadlineNode* node, int kind, object owner) except -1:
        """Starts the time of that kind for the node, in place of the one that runs. `owner`: the object in
        which the node lies (borrowed)."""
        if node.kind != NO_DEADLINE:
            self.stop(node)
        node.kind = kind
        node.when = self.loop.clock.now + self.lists[kind].length
        append(&self.lists[kind].nodes, &node.place, <PyObject*> owner)
        if self.timer.index < 0 or node.when < self.timer.when:
            self.due_by(node.when)
        return 0

    cdef int go_on(self, DeadlineNode* node, int kind, int64_t when, object owner) except -1:
        """As start(), for a time that another Deadlines has begun, and that ends as it would have there."""
        cdef LinkedList* nodes = &self.lists[kind].nodes
        cdef DeadlineNode* before = <DeadlineNode*> nodes.last
        node.kind = kind
        node.when = when
        if before != NULL and (<DeadlineNode*> nodes.first).when > when:
            before = NULL                       # as most of many that come one by one, the last first
        while before != NULL and before.when > when:
            before = <DeadlineNode*> before.place.before
        insert_behind(nodes, &before.place if before != NULL else NULL, &node.place, <PyObject*> owner)
        return self.due_by(when)

    cdef void stop(self, DeadlineNode* node) noexcept:
        if node.kind != NO_DEADLINE:
            remove(&self.lists[node.kind].nodes, &node.place)
            node.kind = NO_DEADLINE

    cdef int64_t began(self, DeadlineNode* node) noexcept:
        """When the node's deadline was started, ns."""
        return node.when - self.lists[node.kind].length

    cdef Py_ssize_t count(self) noexcept:
        """How many nodes are in the lists."""
        cdef Py_ssize_t nodes = 0
        cdef int kind
        for kind in range(KINDS):
            nodes += self.count_kind(kind)
        return nodes

    cdef Py_ssize_t count_kind(self, int kind) noexcept:
        """How many are in that kind's list."""
        cdef Py_ssize_t nodes = 0
        cdef DeadlineNode* node = self.first(kind)
        while node != NULL:
            nodes += 1
            node = next_of(node)
        return nodes

    cdef int due_by(self, int64_t when) except -1:
        """The timer fires then at the latest."""
        if self.timer.index < 0 or when < self.timer.when:
            self.loop.timers.remove(&self.timer)
            self.loop.timers.add(&self.timer, when)
        return 0

    cdef int64_t expire_due(self, int64_t now) noexcept:
        """Stops and expires all that are due. Returns when the next one is, or -1."""
        cdef DeadlineNode* node
        cdef int64_t earliest = -1
        cdef int kind
        for kind in range(KINDS):
            while True:
                node = self.first(kind)
                if node == NULL or node.when > now:
                    break
                owner = <object> node.place.owner         # it may let itself go meanwhile
                self.stop(node)
                try:
                    self.expire(self.loop, owner, kind)
                except BaseException as error:
                    self.loop.report("a connection's deadline", error)
        for kind in range(KINDS):
            node = self.first(kind)
            if node != NULL and (earliest < 0 or node.when < earliest):
                earliest = node.when
        return earliest

    cdef void close(self) noexcept:
        """No more expires. It is started by the next start()."""
        self.loop.timers.remove(&self.timer)


@cython.final
cdef class Flusher(Runnable):
    """Runs before the loop polls, if anything was added since it last did."""

    def __cinit__(self, Loop loop not None):
        self.loop = loop

    def __dealloc__(self):
        while self.count:
            self.count -= 1
            Py_DECREF(<object> self.pending[self.count])

    cdef int turn(self, Scheduler loop) except -1:
        return self.flush_all()

    cdef int add(self, object owner) except -1:
        """The owner is flushed soon, even if that is done already when the turn ends."""
        cdef int at = self.count
        while at:                       # the last is the likeliest: pipelined requests
            at -= 1
            if self.pending[at] == <PyObject*> owner:
                return 0
        if self.count == 0:
            self.loop.before_poll(self)
            self.since = self.loop.clock.now
        Py_INCREF(owner)
        self.pending[self.count] = <PyObject*> owner
        self.count += 1
        if self.count == FLUSH_COUNT or self.loop.clock.now - self.since > FLUSH_AFTER:
            self.flush_all()
        return 0

    cdef int flush_all(self) except -1:
        """Flushes those that are pending, and those that are added meanwhile."""
        while self.count:
            self.count -= 1
            owner = <object> self.pending[self.count]
            Py_DECREF(owner)
            try:
                self.flush(self.loop, owner)
            except BaseException as error:
                self.loop.report("sending a response", error)
        return 0


cdef extern from *:
    """
    #include "syncless_config.h"
    #include <sys/ioctl.h>
    #if SYNCLESS_SIOCOUTQ
    #include <linux/sockios.h>
    #endif

    /* Bytes that the socket holds for a peer that has not acknowledged them. */
    static int syncless_unsent(int fd) {
        int bytes = 0;
    #if SYNCLESS_SIOCOUTQ
        if (ioctl(fd, SIOCOUTQ, &bytes) < 0)
            return 0;
    #endif
        return bytes;
    }
    """
    int unsent "syncless_unsent" (int fd) nogil


cdef class DataRate:
    """Of one client."""

    cdef void check(self, int fd) noexcept:
        data_rate_check(&self.state, unsent(fd), monotonic_ns())


@cython.final
cdef class DataRates:
    """Of a listener's clients that are slow to take an answer, by descriptor."""

    def __cinit__(self, Loop loop not None):
        self.loop = loop
        self.by_fd = {}

    cdef int stalled(self, int fd, Py_ssize_t more) except -1:
        """The client takes no more now: a wait begins, or goes on after it has taken `more` bytes."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None:
            self.by_fd[fd] = rate = DataRate()
            self.count += 1
            rate.state.given = unsent(fd)
            rate.state.progress = self.loop.clock.now
        else:
            rate.state.given += more
        if rate.state.since == 0:
            rate.state.since = self.loop.clock.now
        return 0

    cdef int rested(self, int fd) except -1:
        """The wait is over."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is not None and rate.state.since:
            rate.state.waited += monotonic_ns() - rate.state.since
            rate.state.since = 0
        return 0

    cdef int sent_more(self, int fd, Py_ssize_t n) except -1:
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is not None:
            rate.state.given += n
        return 0

    cdef int forget(self, int fd) except -1:
        """The answer is sent, or the connection closed."""
        if self.by_fd.pop(fd, None) is not None:
            self.count -= 1
        return 0

    cdef bint too_slow(self, int fd) except -1:
        """Whether the client has taken too little; asks the kernel where that may be so."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None or not data_rate_counts(&rate.state, self.limits, monotonic_ns()):
            return False
        rate.check(fd)
        return data_rate_is_too_slow(&rate.state, self.limits, monotonic_ns())

    cdef bint may_wait(self, int fd) except -1:
        """Whether a wait whose client is checked now may go on."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None:
            return False
        rate.check(fd)
        return data_rate_may_wait(&rate.state, self.limits, monotonic_ns())


cdef enum:
    STATUS_LINES = 128      # that are kept
    LARGEST = 2048          # bytes: a larger head is not kept

cdef bytes status_line_of(object status):
    if isinstance(status, int):
        status = f"{status} {PHRASES.get(status, 'Unknown')}"
    try:
        raw = status.encode("latin-1")
    except UnicodeEncodeError:
        return None
    if len(raw) < 4 or not raw[:3].isdigit() or raw[3:4] != b" " or raw[:1] < b"1":
        return None
    if any(c < 32 or c == 127 for c in raw):
        return None
    return b"HTTP/1.1 " + raw + b"\r\n"


cdef bint is_same_bytes(PyObject* one, PyObject* other) noexcept:
    return one == other or (
        PyBytes_CheckExact(<object> one) and PyBytes_CheckExact(<object> other)
        and PyBytes_GET_SIZE(<object> one) == PyBytes_GET_SIZE(<object> other)
        and memcmp(PyBytes_AS_STRING(<object> one), PyBytes_AS_STRING(<object> other),
                   PyBytes_GET_SIZE(<object> one)) == 0)


cdef bint is_same_pair(PyObject* one, PyObject* other) noexcept:
    """Whether both are the same pair of bytes; `other` is a pair."""
    if one == other:
        return True
    return (
        type(<object> one) is tuple and PyTuple_GET_SIZE(<object> one) == 2
        and is_same_bytes(PyTuple_GET_ITEM(<object> one, 0), PyTuple_GET_ITEM(<object> other, 0))
        and is_same_bytes(PyTuple_GET_ITEM(<object> one, 1), PyTuple_GET_ITEM(<object> other, 1)))


@cython.final
cdef class ResponseHeads:
    """ResponseHeads().

    status_code()  the code of a status; its line is in `status_line` then
    dates()        the Server and Date fields
    is_last()      whether the head for this status and these headers is the last one: `head`, `length` and
                   `closes` are theirs then
    remember()     makes a head the last one
    """

    def __init__(self):
        self.dated = -1
        self.status_lines = {}

    cdef int status_code(self, object status) except -1:
        """ValueError if the application's status is no status."""
        if status is self.read_status:
            return self.code
        known = self.status_lines.get(status)
        if known is None:
            line = status_line_of(status)
            if line is None:
                raise ValueError(
                    f"status must be three digits, a space and a reason in latin-1, not {status!r}")
            known = line, int(line[9:12])
            if len(self.status_lines) < STATUS_LINES:
                self.status_lines[status] = known
        self.read_status = status
        self.status_line, self.code = known
        return self.code

    cdef bytes dates(self):
        cdef int64_t now = seconds_now(NULL)
        if now != self.dated:
            self.dated = now
            self.date_block = dates_at(now)
        return self.date_block

    cdef bint is_last(self, object status, list headers) except -1:
        """By identity: strings and tuples do not change, so neither does their head."""
        cdef Py_ssize_t i
        if status is not self.status or self.headers is None or self.dates() is not self.head_dates:
            return False
        if PyList_GET_SIZE(headers) != PyTuple_GET_SIZE(self.headers):
            return False
        for i in range(PyList_GET_SIZE(headers)):
            if PyList_GET_ITEM(headers, i) != PyTuple_GET_ITEM(self.headers, i):
                return False
        return True

    cdef bint is_same(self, int status, object headers) except -1:
        """By value: a list of pairs of bytes. Those that were kept with a number as status are pairs, too."""
        cdef Py_ssize_t i
        if self.headers is None or self.number != status or type(headers) is not list:
            return False
        if PyList_GET_SIZE(headers) != PyTuple_GET_SIZE(self.headers) or self.dates() is not self.head_dates:
            return False
        for i in range(PyList_GET_SIZE(headers)):
            if not is_same_pair(PyList_GET_ITEM(headers, i), PyTuple_GET_ITEM(self.headers, i)):
                return False
        return True

    cdef int remember(self, object status, list headers, Buffer* head, int64_t length, bint closes) except -1:
        """`head`: without the empty line at its end, and with the present dates()."""
        self.headers = None
        if head.size > LARGEST:
            return 0
        self.head = PyBytes_FromStringAndSize(NULL, head.size + 2)
        memcpy(PyBytes_AS_STRING(self.head), head.data, head.size)
        memcpy(PyBytes_AS_STRING(self.head) + head.size, b"\r\n", 2)
        self.length = length
        self.closes = closes
        self.status = status
        self.number = status if isinstance(status, int) else 0
        self.head_dates = self.date_block
        self.headers = tuple(headers)
        return 0


cdef class Admission:
    """Admission(deadlines, requests, queued): the limits of these names."""

    def __init__(self, Deadlines deadlines not None, Py_ssize_t requests, Py_ssize_t queued):
        self.deadlines = deadlines
        self.most_active = requests
        self.most_queued = queued

    cdef bint is_full(self) noexcept:
        """Whether as many run as may."""
        cdef Py_ssize_t active = self.active
        cdef Admission other
        if self.siblings is not None:
            active = 0
            for other in self.siblings:
                active += other.active
        return active >= self.most_active

    cdef int offer(self) except -1:
        """Requests may have ended elsewhere: those that wait have their turn."""
        while self.queued and not self.is_full():
            self.active += 1
            self.hand_over()
        return 0

    cdef bint queue(self, DeadlineNode* node, Runnable owner) except -1:
        """Whether its owner may wait for its turn."""
        if self.queued >= self.most_queued:
            return False
        self.deadlines.start(node, QUEUE_DEADLINE, owner)
        self.queued += 1
        return True

    cdef int leave(self, DeadlineNode* node) except -1:
        """The owner of a node that was queued will not run. It may have been given a turn already."""
        if node.kind == QUEUE_DEADLINE:
            self.deadlines.stop(node)
            self.queued -= 1
            return 0
        return self.end()

    cdef bint hand_over(self) except -1:
        """Whether another one is there to have the turn."""
        cdef DeadlineNode* first = self.deadlines.first(QUEUE_DEADLINE)
        if first == NULL:
            return False
        owner = <Runnable> first.place.owner
        self.queued -= 1
        self.deadlines.stop(first)
        self.deadlines.loop.push(owner)
        return True


SECONDS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)
"""The upper bounds of the buckets of the latency, but for the last, which has none."""
FREE = <int> REQUESTS
CELLS = <int> ROW

cdef int _i
for _i in range(BUCKETS):
    BOUNDS[_i] = <int64_t> (SECONDS[_i] * 1e9) if _i < BUCKETS - 1 else INT64_MAX


cdef class Counters:
    """Counters(memory): a writable buffer of CELLS cells of 8 bytes."""

    def __cinit__(self, memory):
        PyObject_GetBuffer(memory, &self.memory, PyBUF_WRITABLE)
        if self.memory.len < ROW * 8:
            raise ValueError(f"counters need {ROW * 8} bytes, not {self.memory.len}")
        self.cells = <int64_t*> self.memory.buf

    def __dealloc__(self):
        PyBuffer_Release(&self.memory)

    def count(self, int code, int64_t ns=-1) -> None:
        """A request that has been answered; for tests."""
        if not 0 <= code < CODES:
            raise ValueError(f"{code} is not a status code")
        self.count_request(code, ns)


def totals(cells) -> dict:
    """The counts of a row of cells, a sequence of int."""
    return {
        "requests": by_status(cells, REQUESTS),
        "refused": by_status(cells, REFUSED),
        "latency": [int(number) for number in cells[LATENCY:LATENCY + BUCKETS]],
        "latency_seconds": cells[LATENCY_NS] / 1e9,
        "queue_times": [int(number) for number in cells[QUEUED:QUEUED + BUCKETS]],
        "queue_seconds": cells[QUEUED_NS] / 1e9,
        "http2_resets": by_error(cells, HTTP2_RESETS),
        "http2_goaways": by_error(cells, HTTP2_GOAWAYS),
    }


cdef dict by_error(cells, int start):
    return {name: cells[start + code] for code, name in enumerate(HTTP2_ERRORS) if cells[start + code]}


cdef dict by_status(cells, int start):
    return {code: number for code, number in enumerate(cells[start:start + CODES]) if number}


cdef class Listener:
    """Listener(application, limits, ...): made by Server."""

    def __init__(
        self, application, limits, AccessLog access_log, error_log, *,
        certificates=None, plain_http=False, trusted=None, proxy_protocol=False, trusted_fields=(),
        on_hangup=ON_HANGUP[0], request_ids=False, request_slots=None,
    ):
        self.application = application
        self.limits = limit_values(limits)
        self.certificates = certificates
        self.plain_http = plain_http
        self.trusted = trusted
        self.proxy_protocol = proxy_protocol
        self.on_hangup = on_hangup
        self.request_ids = request_ids
        self.place = ("localhost", "")
        self.request_slots = request_slots
        self.context = Context()
        self.context.run(use_slots, request_slots)
        self.recorded_waits = int(limits.recorded_waits)
        self.cancel_seconds = limits.cancel_seconds
        self.trusted_fields = trusted_fields
        self.bounds = (
            self.limits.request_ns or request_ids or on_hangup != ON_HANGUP[0]
            or trusted is not None and REQUEST_START in trusted_fields)
        self.access_log = access_log
        self.error_log = error_log
        self.slow_ns = NEVER
        self.complaints = {}
        self.loop = get_loop()
        self.deadlines = Deadlines(self.loop)
        self.deadlines.allow(GREETING_DEADLINE, self.limits.greeting_ns)
        self.deadlines.allow(HEAD_DEADLINE, self.limits.head_ns)
        self.deadlines.allow(IDLE_DEADLINE, self.limits.idle_ns)
        self.deadlines.allow(QUEUE_DEADLINE, self.limits.queue_ns)
        self.deadlines.allow(WRITE_DEADLINE, self.limits.write_check_ns)
        self.deadlines.allow(LINGER_DEADLINE, self.limits.linger_check_ns)
        self.deadlines.allow(DRAIN_DEADLINE, self.limits.linger_check_ns)
        self.buffers = Buffers(limits.buffered_bytes)
        self.flusher = Flusher(self.loop)
        self.admission = Admission(self.deadlines, limits.requests, limits.queued)
        self.clients = Clients(limits.client_connections) if limits.client_connections else None
        self.heads = application.heads
        self.response_heads = ResponseHeads()
        self.data_rates = DataRates(self.loop)
        self.data_rates.limits = &self.limits

    def report_slow(self, slow_requests) -> None:
        """Its requests that take `slow_requests.seconds` are given to that when they end."""
        self.slow_requests = slow_requests
        self.slow_ns = <int64_t> (slow_requests.seconds * 1e9)

    def stop(self) -> None:
        """From now on every response closes its connection."""
        self.stopping = True

    def close(self) -> None:
        """Ends what would keep the listener alive."""
        self.deadlines.close()
        self.application.close()

    cdef int complain(self, str words) except -1:
        """Of what the system is short of, each once in a while."""
        cdef int64_t now = monotonic_ns()
        if now > <int64_t> self.complaints.get(words, 0):
            self.complaints[words] = now + COMPLAIN_NS
            self.error_log.warning(words)
        return 0

    cdef Py_ssize_t all_connections(self) noexcept:
        """Those of its socket, in all threads."""
        cdef Py_ssize_t connections = 0
        cdef Listener other
        if self.siblings is None:
            return self.connections
        for other in self.siblings:
            connections += other.connections
        return connections

    cdef int64_t all_held(self) noexcept:
        """Bytes in the buffers of these."""
        cdef int64_t held = 0
        cdef Listener other
        if self.siblings is None:
            return self.buffers.held
        for other in self.siblings:
            held += other.buffers.held
        return held

    cdef int offer_room(self) except -1:
        """A connection has become idle: if others wait in the backlog because there are too many, it can be
        closed for one of them."""
        self.starved = False
        if self.acceptor is not None:
            self.loop.push(self.acceptor)
        return 0

    cdef int let_go(self, int fd, str client) except -1:
        """A connection closes: nothing of it is kept. `fd`: negative if the descriptor was given away;
        `client`: its address, if it counts for it."""
        if fd >= 0:
            if self.data_rates.count:
                self.data_rates.forget(fd)
            self.heads.forget(fd)
        if client is not None:
            self.clients.leave(client)
        self.connections -= 1
        if self.limits.connections and self.acceptor is not None:
            self.loop.push(self.acceptor)       # there is room again
        return 0

    def figures(self) -> dict:
        """Its connections by phase, and what has gone through them; from any thread."""
        cdef Py_ssize_t greeting = self.deadlines.count_kind(GREETING_DEADLINE)
        cdef Py_ssize_t reading = self.deadlines.count_kind(HEAD_DEADLINE)
        return {
            "connections": self.connections,
            "greeting": greeting,
            "reading": reading,
            "queued": self.admission.queued,
            "running": self.admission.active,
            "lingering": self.lingering,
            "http2": self.http2_connections,
            "idle": max(0, self.connections - greeting - reading - self.admission.queued
                - self.admission.active + self.http2_streams - self.lingering - self.http2_connections),
            "http2_streams": self.http2_streams,
            "http2_requests": self.http2_requests,
            "hangups": self.hangups,
            "buffered_bytes": self.buffers.held,
            "accepted": self.accepted,
            "received_bytes": self.buffers.received,
            "sent_bytes": self.buffers.sent,
        }

    def census(self) -> dict:
        """Counts of the things that it owns now; all zero once its connections are closed."""
        return {
            "connections": self.connections,
            "active": self.admission.active,
            "queued": self.admission.queued,
            "lingering": self.lingering,
            "deadlines": self.deadlines.count(),
            "buffers": self.buffers.lent,
            "buffered bytes": self.buffers.held,
            "remembered": self.heads.count,
            "slow": self.data_rates.count,
            "clients": len(self.clients or ()),
        }
