"""Listener: the options and parts that the connections of one listening socket share. No state is global:
several servers live in one process.

It has the options of its server and their common parts, each of which has a file of its own: deadlines,
buffers, flusher, pace, admission, clients, responseheads. Next to read: acceptor.pyx, which makes
connections, and connection.pyx.
"""

from syncless._core.threadloop cimport get_loop
from syncless.http.admission cimport Admission
from syncless.http.buffers cimport Buffers
from syncless.http.deadlines cimport (
    GREETING_DEADLINE, HEAD_DEADLINE, IDLE_DEADLINE, LINGER_DEADLINE, QUEUE_DEADLINE, WRITE_DEADLINE,
    Deadlines,
)
from syncless.http.flusher cimport Flusher
from syncless.http.pace cimport Paces
from syncless.http.responseheads cimport ResponseHeads

from syncless.http.clients import Clients
from syncless.http.limits import limit_values


cdef class Listener:
    """Listener(application, limits, ...): made by Server."""

    def __init__(
        self, application, limits, AccessLog access_log, error_log, *,
        certificates=None, plain_http=False, trusted=None, proxy_protocol=False,
    ):
        self.application = application
        self.limits = limit_values(limits)
        self.certificates = certificates
        self.plain_http = plain_http
        self.trusted = trusted
        self.proxy_protocol = proxy_protocol
        self.access_log = access_log
        self.error_log = error_log
        self.loop = get_loop()
        self.deadlines = Deadlines(self.loop)
        self.deadlines.allow(GREETING_DEADLINE, self.limits.greeting_ns)
        self.deadlines.allow(HEAD_DEADLINE, self.limits.head_ns)
        self.deadlines.allow(IDLE_DEADLINE, self.limits.idle_ns)
        self.deadlines.allow(QUEUE_DEADLINE, self.limits.queue_ns)
        self.deadlines.allow(WRITE_DEADLINE, self.limits.write_look_ns)
        self.deadlines.allow(LINGER_DEADLINE, self.limits.linger_look_ns)
        self.buffers = Buffers(limits.buffered_bytes)
        self.flusher = Flusher(self.loop)
        self.admission = Admission(self.deadlines, limits.requests, limits.queued)
        self.clients = Clients(limits.client_connections) if limits.client_connections else None
        self.heads = application.heads
        self.response_heads = ResponseHeads()
        self.paces = Paces(self.loop)
        self.paces.limits = &self.limits

    def stop(self) -> None:
        """From now on every response closes its connection."""
        self.stopping = True

    def close(self) -> None:
        """Ends what would keep the listener alive."""
        self.deadlines.close()
        self.application.close()

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
            self.heads.forget(fd)
            if self.paces.count:
                self.paces.forget(fd)
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
            "idle": max(0, self.connections - greeting - reading - self.admission.queued
                - self.admission.active - self.lingering),
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
            "slow": self.paces.count,
            "clients": len(self.clients or ()),
        }
