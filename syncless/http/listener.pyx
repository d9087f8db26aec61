"""Listener: the options and parts that the connections of one listening socket share. No state is global:
several servers live in one process.

Its parts know nothing of connections; each is a file of listener/. Next to read: acceptor.pyx, which makes
connections, and connection.pyx.
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
from libc.math cimport log, log1p
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcmp, memcpy, memset
from libc.time cimport time as seconds_now

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.cpython.compat cimport raised
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

import os
from contextvars import Context
from importlib import import_module

from syncless._core.cpython.threadlocal import use_slots
from syncless.http.clients import Clients
from syncless.http.errors import HTTP2_ERRORS, ON_HANGUP, PHRASES
from syncless.http.limits import limit_values
from syncless.http.log.errorlog import INFO
from syncless.http.trust import REQUEST_START, REQUEST_TIMEOUT


include "listener/quota.pxi"
include "listener/deadlines.pxi"
include "listener/flusher.pxi"
include "listener/datarates.pxi"
include "listener/responseheads.pxi"
include "listener/reached.pxi"
include "listener/admission.pxi"
include "listener/counters.pxi"


cdef class Listener:
    """Listener(application, limits, ...): made by Server."""

    def __init__(
        self, application, limits, AccessLog access_log, error_log, *,
        certificates=None, plain_http=False, trusted=None, proxy_protocol=False, trusted_fields=(),
        on_hangup=ON_HANGUP[0], request_ids=False, request_slots=None, pass_deadline=False,
        priority=None,
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
        self.tells_start = trusted is not None and REQUEST_START in trusted_fields
        self.tells_timeout = trusted is not None and REQUEST_TIMEOUT in trusted_fields
        self.pass_deadline = pass_deadline
        self.bounds = self.always_bounds = (
            self.limits.request_ns or request_ids or on_hangup != ON_HANGUP[0]
            or self.tells_start or self.tells_timeout)
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
        self.deadlines.allow(BEAT_DEADLINE, self.limits.ping_ns)
        self.buffers = Buffers(limits.buffered_bytes)
        self.flusher = Flusher(self.loop)
        self.reached = Reached(self.loop, limits, error_log)
        self.admission = Admission(self.deadlines, self.reached, limits.requests, limits.queued, priority)
        self.clients = Clients(limits.client_connections) if limits.client_connections else None
        self.heads = application.heads
        self.response_heads = ResponseHeads()
        self.data_rates = DataRates(self.loop)
        self.data_rates.limits = &self.limits

    def report_slow(self, slow_requests) -> None:
        """Pass each request that takes at least `slow_requests.seconds` to `slow_requests` when it ends."""
        self.slow_requests = slow_requests
        self.slow_ns = <int64_t> (slow_requests.seconds * 1e9)

    def trace(self, tracer, double share, str parents, bint tells_all) -> None:
        """Have `tracer` make a span for this share of the requests. `parents`: the traceparent of a request
        "decide"s whether it is traced, only "count"s as the trace of which it is a part, or is "ignored".
        `tells_all`: the tracer is told of requests that are not traced, too."""
        self.tracer = tracer
        self.parents_decide = parents == "decide"
        self.parents_count = parents != "ignored"
        self.tells_all = tells_all
        self.random = int.from_bytes(os.urandom(8), "little") | 1
        self.share = share
        self.draw_gap()
        self.bounds = True

    cdef bint draw_gap(self) noexcept:
        """Draw the request that is traced next: the gaps between events that are as likely each time have a
        geometric distribution, and a draw for each gap is cheaper than one for each request."""
        cdef double chance
        if self.share >= 1:
            self.until_traced = 1
        elif self.share <= 0:
            self.until_traced = INT64_MAX
        else:
            self.random ^= self.random << 13        # Marsaglia's xorshift
            self.random ^= self.random >> 7
            self.random ^= self.random << 17
            chance = ((self.random >> 11) + 1) / <double> (1 << 53)     # above 0, at most 1
            self.until_traced = 1 + <int64_t> min(log(chance) / log1p(-self.share), 1e18)
        return True

    def stop(self) -> None:
        """From now on every response closes its connection."""
        self.stopping = True

    def close(self) -> None:
        """End what would keep the listener alive."""
        self.deadlines.close()
        self.admission.close()
        self.reached.close()
        self.application.close()

    cdef int complain(self, str words) except -1:
        """Of what the system is short of, each once in a while."""
        cdef int64_t now = monotonic_ns()
        if now > <int64_t> self.complaints.get(words, 0):
            self.complaints[words] = now + COMPLAIN_NS
            self.error_log.warning(words)
        return 0

    cdef Py_ssize_t all_connections(self) noexcept:
        """Return those of its socket, in all threads."""
        cdef Py_ssize_t connections = 0
        cdef Listener other
        if self.siblings is None:
            return self.connections
        for other in self.siblings:
            connections += other.connections
        return connections

    cdef int64_t all_held(self) noexcept:
        """Return bytes in the buffers of these."""
        cdef int64_t held = 0
        cdef Listener other
        if self.siblings is None:
            return self.buffers.held
        for other in self.siblings:
            held += other.buffers.held
        return held

    cdef int offer_room(self) except -1:
        """A connection waits for bytes: if others wait in the backlog because there are too many, it can be
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
            "exempt": self.admission.exempt,
            "requests_limit": self.admission.told_limit(),
            "requests_refused": self.admission.refused,
            "lingering": self.lingering,
            "http2": self.http2_connections,
            "idle": max(0, self.connections - greeting - reading - self.admission.queued
                - self.admission.active + self.http2_streams - self.lingering - self.http2_connections
                - self.held_streams),
            "held_streams": self.held_streams,
            "held_dropped": self.held_dropped,
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
            "held": self.held_streams,
        }
