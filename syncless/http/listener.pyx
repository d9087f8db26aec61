"""Listener: what the connections of one listening socket share. No state is global: several servers live in
one process.

What has a file of its own: deadlines, buffers, flusher, responseheads, limits."""

import math
from dataclasses import asdict
from ipaddress import IPv6Address


from syncless._core.loop cimport get_loop
from syncless.http.buffers cimport Buffers
from syncless.http.deadlines cimport (
    GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, QUEUE_DEADLINE, WRITE_DEADLINE, DeadlineNode,
    Deadlines,
)
from syncless.http.flusher cimport Flusher
from syncless.http.responseheads cimport ResponseHeads

cdef object client_key(str address):
    """What a client's connections are counted by: its address, or its IPv6 network, of which it has all
    addresses."""
    return int(IPv6Address(address.partition("%")[0])) >> 64 if ":" in address else address


cdef enum:
    LOOK = 5                    # s after which a client that makes us wait is looked at, at the latest


cdef class Listener:
    """Listener(application, limits, ...): made by Server."""

    def __init__(
        self, application, limits, AccessLog access_log, error_log, *,
        certificates=None, plain_http=False, trusted=None, proxy_protocol=False,
    ):
        self.application = application
        self.heads = application.heads
        self.limits = asdict(limits)
        self.head_limits.line = self.limits.request_line
        self.head_limits.headers = self.limits.header_count
        self.head_limits.total = self.limits.head_bytes
        self.certificates = certificates
        self.plain_http = plain_http
        self.trusted = trusted
        self.proxy_protocol = proxy_protocol
        self.paces = {}
        self.clients = {}
        self.loop = get_loop()
        self.buffers = Buffers(limits.buffered_bytes)
        self.flusher = Flusher(self.loop)
        self.deadlines = Deadlines(self.loop)
        self.deadlines.allow(HEAD_DEADLINE, limits.head_seconds)
        self.deadlines.allow(IDLE_DEADLINE, limits.idle_seconds)
        self.deadlines.allow(
            WRITE_DEADLINE, min(limits.write_seconds, max(0.1, min(limits.write_grace_seconds, LOOK))))
        look = min(limits.linger_idle_seconds, limits.linger_seconds)
        self.deadlines.allow(LINGER_DEADLINE, look)
        self.linger_checks = min(255, math.ceil(limits.linger_seconds / look)) if look else 0
        self.deadlines.allow(GREETING_DEADLINE, limits.greeting_seconds)
        self.deadlines.allow(QUEUE_DEADLINE, limits.queue_seconds)
        self.access_log = access_log
        self.error_log = error_log
        self.response_heads = ResponseHeads(self.loop)

    def close(self) -> None:
        """Ends what would keep the listener alive."""
        self.deadlines.close()
        self.application.close()

    @property
    def stopping(self) -> bool:
        """While true every response closes its connection."""
        return self.stopping

    @stopping.setter
    def stopping(self, bint value):
        self.stopping = value

    # -- who may be served --------------------------------------------------------------------------------

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
        cdef DeadlineNode* first = self.deadlines.lists[QUEUE_DEADLINE].first
        if first == NULL:
            return False
        self.queued -= 1
        self.deadlines.stop(first)
        self.loop.push(<object> first.owner)
        return True

    cdef int offer_room(self) except -1:
        """A connection has become idle: if others wait in the backlog because there are too many, it can be
        closed for one of them."""
        self.starved = False
        if self.acceptor is not None:
            self.loop.push(self.acceptor)
        return 0

    def census(self) -> dict:
        """What the server owns now; all zero once its connections are closed."""
        return {
            "connections": self.connections, "active": self.active, "queued": self.queued, "lingering": self.lingering,
            "deadlines": self.deadlines.count(), "buffers": self.buffers.lent, "buffered bytes": self.buffers.held,
            "remembered": self.heads.count, "slow": self.slow, "clients": len(self.clients),
        }
