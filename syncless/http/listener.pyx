"""Listener: what the connections of one listening socket share. No state is global: several servers live in
one process.

Deadlines: connections stand in one list per kind of deadline, in the order of expiry, because all deadlines
of a kind have the same length. Setting one is a relink; a single timer of the loop looks at the heads of the
lists.

Flushing: the responses of one turn of the loop are sent together at its end, at the latest after FLUSH_COUNT
responses or FLUSH_AFTER ns: the application's code and data stay in the processor's caches, and so do the
kernel's. A handler that takes longer than that holds up those that were finished before it in the same turn,
so before a slow application is called everything is sent.
"""

import math
import time
from dataclasses import asdict
from ipaddress import IPv6Address

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop, get_loop
from syncless._core.scheduler cimport Runnable, Scheduler
from syncless._core.timers cimport timer_init
from syncless.http.environ cimport EnvironMaker

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(double when) -> str:
    """The time (seconds since 1970) in the form of RFC 9110, 5.6.7; strftime() would follow the locale."""
    t = time.gmtime(when)
    return f"{DAYS[t.tm_wday]}, {t.tm_mday:02} {MONTHS[t.tm_mon - 1]} {t.tm_year} {t.tm_hour:02}:{t.tm_min:02}:{t.tm_sec:02} GMT"


cdef object client_key(str address):
    """What a client's connections are counted by: its address, or its IPv6 network, of which it has all
    addresses."""
    return int(IPv6Address(address.partition("%")[0])) >> 64 if ":" in address else address


cdef enum:
    LOOK = 5                    # s after which a client that makes us wait is looked at, at the latest
    FLUSH_COUNT = 8
    FLUSH_AFTER = 500000        # ns
    POOL = 64                   # send buffers kept


cdef class Link(ByteSource):
    """A connection as the Listener sees it: something with a deadline that can be flushed."""

    def __cinit__(self):
        self.deadline_kind = NO_DEADLINE

    cdef int expired(self, Loop loop, int kind) except -1:
        raise NotImplementedError

    cdef int flush(self, Loop loop) except -1:
        raise NotImplementedError

    cdef bint holds(self) noexcept:
        """Whether received bytes are kept for it."""
        return False


cdef class Flusher(Runnable):
    """Sends what is pending before the loop polls."""

    cdef int turn(self, Scheduler loop) except -1:
        return self.listener.flush_pending() if self.listener is not None else 0  # it may have ended meanwhile


cdef void look_at_deadlines(void* owner) noexcept:
    """The timer's callback: everything that is due expires, then the timer is set to the next."""
    cdef Listener listener = <Listener> owner
    cdef Loop loop = listener.loop
    cdef int64_t now = monotonic_ns(), first = -1
    cdef DeadlineList* deadlines
    cdef int kind
    for kind in range(DEADLINES):
        deadlines = &listener.lists[kind]
        while deadlines.first != NULL and (<Link> deadlines.first).deadline <= now:
            link = <Link> deadlines.first
            listener.set_deadline(link, NO_DEADLINE)
            try:
                link.expired(loop, kind)
            except BaseException as error:
                loop.report("a connection's deadline", error)
        if deadlines.first != NULL and (first < 0 or (<Link> deadlines.first).deadline < first):
            first = (<Link> deadlines.first).deadline
    if first >= 0 and listener.timer.index < 0:
        try:
            loop.timers.add(&listener.timer, first)
        except MemoryError as error:
            loop.report("a connection's deadline", error)


cdef class Listener:
    """Listener(application, template, limits): made by Server. `template` is what every environ begins
    with."""

    def __cinit__(self):
        timer_init(&self.timer, look_at_deadlines, <void*> self)
        self.scratch = <char*> PyMem_Malloc(SCRATCH)
        self.pool = <char**> PyMem_Malloc(POOL * sizeof(char*))
        if self.scratch == NULL or self.pool == NULL:
            raise MemoryError

    def __init__(
        self, application, dict template not None, limits, AccessLog log_access, log_errors, *,
        tls=None, plain_too=False, trusts=None, proxied=False, forward=None, websocket=None,
    ):
        self.application = application
        self.limits = asdict(limits)
        self.head_limits.line = self.limits.request_line
        self.head_limits.headers = self.limits.header_count
        self.head_limits.total = self.limits.head_bytes
        self.tls = tls
        self.plain_too = plain_too
        self.trusts = trusts
        self.proxied = proxied
        self.forward = forward
        self.websocket = websocket
        self.lists[HEAD_DEADLINE].length = <int64_t> (limits.head_seconds * 1e9)
        self.lists[IDLE_DEADLINE].length = <int64_t> (limits.idle_seconds * 1e9)
        self.lists[BODY_DEADLINE].length = <int64_t> (limits.body_seconds * 1e9)
        look = min(limits.write_seconds, max(0.1, min(limits.write_grace_seconds, LOOK)))
        self.lists[WRITE_DEADLINE].length = <int64_t> (look * 1e9)
        self.paces = {}
        self.clients = {}
        look = min(limits.linger_idle_seconds, limits.linger_seconds)
        self.lists[LINGER_DEADLINE].length = <int64_t> (look * 1e9)
        self.linger_checks = min(255, math.ceil(limits.linger_seconds / look)) if look else 0
        self.lists[GREETING_DEADLINE].length = <int64_t> (limits.greeting_seconds * 1e9)
        self.lists[QUEUE_DEADLINE].length = <int64_t> (limits.queue_seconds * 1e9)
        self.lists[PING_DEADLINE].length = <int64_t> (limits.ping_seconds * 1e9)
        self.environs = EnvironMaker(template, limits.remembered)
        self.log_access = log_access
        self.log_errors = log_errors
        self.loop = get_loop()
        self.environs.clock = &self.loop.now
        self.flusher = Flusher()
        self.flusher.listener = self
        self.status_lines = {}
        self.date_at = -1

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.timer.index >= 0:
            self.loop.timers.remove(&self.timer)
        for i in range(self.pool_count):
            PyMem_Free(self.pool[i])
        PyMem_Free(self.pool)
        PyMem_Free(self.scratch)
        PyMem_Free(self.pending)

    def close(self) -> None:
        """Ends what would keep the listener alive."""
        self.loop.timers.remove(&self.timer)
        self.flusher.listener = None
        self.spare_request = None

    @property
    def stopping(self) -> bool:
        """While true every response closes its connection."""
        return self.stopping

    @stopping.setter
    def stopping(self, bint value):
        self.stopping = value

    # -- deadlines -----------------------------------------------------------------------------------------------------------

    cdef void set_deadline(self, Link link, int kind) noexcept:
        """Takes the link out of its list, if it is in one, and puts it at the end of another, unless `kind`
        is NO_DEADLINE."""
        cdef DeadlineList* deadlines
        if link.deadline_kind != NO_DEADLINE:
            deadlines = &self.lists[link.deadline_kind]
            if link.previous != NULL:
                (<Link> link.previous).following = link.following
            else:
                deadlines.first = link.following
            if link.following != NULL:
                (<Link> link.following).previous = link.previous
            else:
                deadlines.last = link.previous
        link.deadline_kind = kind
        if kind == NO_DEADLINE:
            return
        deadlines = &self.lists[kind]
        link.deadline = self.loop.now + deadlines.length
        link.following = NULL
        link.previous = deadlines.last
        if deadlines.last != NULL:
            (<Link> deadlines.last).following = <PyObject*> link
        else:
            deadlines.first = <PyObject*> link
        deadlines.last = <PyObject*> link
        if self.timer.index < 0 or link.deadline < self.timer.when:
            self.loop.timers.remove(&self.timer)
            self.loop.timers.add(&self.timer, link.deadline)

    cdef int64_t since(self, Link link) noexcept:
        """When its present deadline was set, ns."""
        return link.deadline - self.lists[link.deadline_kind].length

    # -- flushing ------------------------------------------------------------------------------------------------------------

    cdef int queue_flush(self, Link link) except -1:
        cdef PyObject** grown
        if link.flush_queued:
            return 0
        if self.pending_count == self.pending_capacity:
            grown = <PyObject**> PyMem_Realloc(self.pending, (self.pending_capacity * 2 or 16) * sizeof(PyObject*))
            if grown == NULL:
                raise MemoryError
            self.pending = grown
            self.pending_capacity = self.pending_capacity * 2 or 16
        if self.pending_count == 0:
            self.loop.before_poll(self.flusher)
            self.pending_since = self.loop.now
        link.flush_queued = True
        Py_INCREF(link)
        self.pending[self.pending_count] = <PyObject*> link
        self.pending_count += 1
        if self.pending_count >= FLUSH_COUNT or self.loop.now - self.pending_since > FLUSH_AFTER:
            self.flush_pending()
        return 0

    cdef int flush_pending(self) except -1:
        cdef Link link
        while self.pending_count:
            self.pending_count -= 1
            link = <Link> self.pending[self.pending_count]
            Py_DECREF(link)
            link.flush_queued = False
            try:
                link.flush(self.loop)
            except BaseException as error:
                self.loop.report("sending a response", error)
        return 0

    # -- buffers -------------------------------------------------------------------------------------------------------------

    cdef char* take_block(self) except NULL:
        """A block of BUFFER bytes."""
        cdef char* block
        self.buffers_out += 1
        if self.pool_count:
            self.pool_count -= 1
            return self.pool[self.pool_count]
        block = <char*> PyMem_Malloc(BUFFER)
        if block == NULL:
            raise MemoryError
        return block

    cdef void give_block(self, char* block) noexcept:
        self.buffers_out -= 1
        if self.pool_count < POOL:
            self.pool[self.pool_count] = block
            self.pool_count += 1
        else:
            PyMem_Free(block)

    cdef int reserve(self, Buffer* buffer, size_t size) except -1:
        """Makes room for `size` more bytes."""
        cdef char* grown
        cdef size_t room
        if buffer.room - buffer.size >= size:
            return 0
        if size > 1 << 30:
            raise MemoryError("more than a gigabyte in a buffer")
        if buffer.data == NULL and size <= BUFFER:
            buffer.data = self.take_block()
            buffer.room = BUFFER
            self.buffered += BUFFER
            return 0
        room = max(<size_t> buffer.room * 2, buffer.size + size)
        if buffer.room == BUFFER or buffer.data == NULL:
            grown = <char*> PyMem_Malloc(room)
            if grown == NULL:
                raise MemoryError
            if buffer.data != NULL:
                memcpy(grown, buffer.data, buffer.size)
                self.give_block(buffer.data)
            self.buffers_out += 1
        else:
            grown = <char*> PyMem_Realloc(buffer.data, room)
            if grown == NULL:
                raise MemoryError
        self.buffered += room - buffer.room
        buffer.data = grown
        buffer.room = <uint32_t> room
        return 0

    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1:
        """As append(), with no more room than that takes where it is little: there may be many half-sent
        heads."""
        if buffer.data == NULL and size <= LITTLE:
            buffer.data = <char*> PyMem_Malloc(size)
            if buffer.data == NULL:
                raise MemoryError
            buffer.room = <uint32_t> size
            self.buffered += size
            self.buffers_out += 1
        return self.append(buffer, data, size)

    cdef bint enter(self, str address) except -1:
        """Counts a connection of that client. Whether it may have so many."""
        key = client_key(address)
        number = self.clients.get(key, 0) + 1
        self.clients[key] = number
        return number <= self.limits.client_connections

    cdef int leave(self, str address) except -1:
        key = client_key(address)
        number = self.clients.get(key, 1) - 1
        if number:
            self.clients[key] = number
        else:
            self.clients.pop(key, None)
        return 0

    cdef bint next_turn(self) except -1:
        """A request has ended: the turn goes to the one that waits longest. Returns whether there is one."""
        cdef PyObject* first = self.lists[QUEUE_DEADLINE].first
        if first == NULL:
            return False
        self.queued -= 1
        self.set_deadline(<Link> first, NO_DEADLINE)
        self.loop.push(<Link> first)
        return True

    cdef int offer_room(self) except -1:
        """A connection has become idle: if others wait in the backlog because there are too many, it can be
        closed for one of them."""
        self.starved = False
        if self.acceptor is not None:
            self.loop.push(self.acceptor)
        return 0

    cdef int shed_slow_heads(self) except -1:
        """Too much is buffered: those that have taken the longest for their request's head are cut off."""
        cdef PyObject* at = self.lists[HEAD_DEADLINE].first
        cdef Link link
        while at != NULL and self.buffered > self.limits.buffered_bytes:
            link = <Link> at
            at = link.following
            if link.holds():
                link.expired(self.loop, NO_DEADLINE)
        return 0

    cdef int append(self, Buffer* buffer, const char* data, size_t size) except -1:
        if buffer.room - buffer.size < size:
            self.reserve(buffer, size)
        memcpy(buffer.data + buffer.size, data, size)
        buffer.size += size
        return 0

    cdef void release(self, Buffer* buffer) noexcept:
        if buffer.data != NULL:
            self.buffered -= buffer.room
            if buffer.room == BUFFER:
                self.give_block(buffer.data)
            else:
                PyMem_Free(buffer.data)
                self.buffers_out -= 1
        buffer.data = NULL
        buffer.size = buffer.room = 0

    # -- the unchanging parts of a response head -----------------------------------------------------------------------------

    cdef int status_code(self, object status) except -1:
        """The code of a status, whose line is in last_line then; ValueError if the application's status is no
        status."""
        if status is self.last_status:
            return self.last_code
        known = self.status_lines.get(status)
        if known is None:
            raw = status.encode("latin-1", "replace")
            if len(raw) < 4 or not raw[:3].isdigit() or raw[3:4] != b" " or raw[:1] < b"1" or any(c < 32 or c == 127 for c in raw):
                raise ValueError(f"status must be three digits, a space and a reason, not {status!r}")
            known = b"HTTP/1.1 " + raw + b"\r\n", int(raw[:3])
            if len(self.status_lines) < 128:
                self.status_lines[status] = known
        self.last_status = status
        self.last_line, self.last_code = known
        return self.last_code

    cdef bytes dates(self):
        """The Server and Date fields, made anew each second."""
        if self.date_at < 0 or self.loop.now - self.date_at > 250000000:
            self.date_at = self.loop.now
            self.date_block = b"Server: syncless\r\nDate: " + http_date(time.time()).encode() + b"\r\n"
        return self.date_block

    def census(self) -> dict:
        """What the server owns now; all zero once its connections are closed."""
        cdef int kind
        cdef Py_ssize_t waiting = 0
        cdef PyObject* link
        for kind in range(DEADLINES):
            link = self.lists[kind].first
            while link != NULL:
                waiting += 1
                link = (<Link> link).following
        return {
            "connections": self.connections, "active": self.active, "queued": self.queued, "lingering": self.lingering, "deadlines": waiting,
            "buffers": self.buffers_out, "buffered bytes": self.buffered, "remembered": self.environs.count,
            "slow": self.slow, "clients": len(self.clients),
        }
