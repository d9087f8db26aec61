"""Where a body gets its bytes: from the inbox of its connection, then from the socket, waiting for a
client that has not sent enough.

A client may make an application wait for so long, for so long in all, and not more slowly than so: see the
body's limits in limits.py.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from syncless._core.clock cimport NEVER
from syncless._core.loop cimport Loop, get_loop
from syncless._core.poll.poller cimport READ
from syncless.http.deadlines cimport BODY_DEADLINE, NO_DEADLINE, PING_DEADLINE
from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener

from syncless.http.errors import BodyTimeout, ClientGone


@cython.no_gc
cdef class BodySource(Peer):
    """A Peer from which the body of its present request is read, as body.pyx wants it."""

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
                if self.request is not None:
                    self.request.body_received += n
                return n
            self.wait_readable()

    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -2:
        cdef Py_ssize_t got
        if self.inbox.size:
            got = min(n, <Py_ssize_t> (self.inbox.size - self.inbox_start))
            memcpy(into, self.inbox.data + self.inbox_start, got)
            self.consume(got)
            return got
        got = -1
        if self.readable or self.peer_shutdown:
            got = self.receive(into, n)
        if got < 0:
            self.wait_readable()
        elif self.request is not None:
            self.request.body_received += got
        return got

    cdef int expected(self) except -1:
        if self.inbox.size == 0:                # else the client goes on by itself
            self.send_all(b"HTTP/1.1 100 Continue\r\n\r\n", 25)
        return 0

    cdef int wait_readable(self) except -1:
        """Parks the tasklet that reads a body until bytes come; BodyTimeout, ClientGone."""
        cdef Loop loop = get_loop()
        cdef Exchange request = self.request
        cdef int64_t started
        if request is None or self.fd < 0:
            raise ClientGone("the connection is closed")
        if self.reader is not None:
            raise RuntimeError("another tasklet is reading this body already")
        self.arm(loop, READ)
        self.timed_out = False
        self.reader = loop.current
        if self.writer is None:                 # else the write deadline stays
            self.listener.deadlines.start(&self.deadline, self.reading_kind())
        started = loop.now
        try:
            loop.park("request body", request, NEVER)
        finally:
            self.reader = None
            if self.deadline.kind == BODY_DEADLINE or self.deadline.kind == PING_DEADLINE:
                self.listener.deadlines.stop(&self.deadline)
        if self.timed_out:
            raise BodyTimeout(f"no byte of the request body came for {self.listener.limits.body_seconds:g} s")
        if self.request is not request:
            raise ClientGone("the request has ended")
        if not request.upgraded:
            request.body_waited += loop.now - started
            self.check_pace()
        return 0

    cdef int check_pace(self) except -1:
        """BodyTimeout where the client has made the application wait for too long in all, or sends too
        slowly."""
        cdef Listener listener = self.listener
        cdef double waited = self.request.body_waited / 1e9
        if listener.limits.body_total_seconds and waited > listener.limits.body_total_seconds:
            raise BodyTimeout(f"the request body took longer than {listener.limits.body_total_seconds:g} s")
        if waited > listener.limits.body_grace_seconds and self.request.body_received < listener.limits.body_rate * waited:
            raise BodyTimeout(f"the request body comes more slowly than {listener.limits.body_rate:g} bytes per second")
        return 0

    cdef int reading_kind(self) noexcept:
        if self.reader is None:
            return NO_DEADLINE
        return PING_DEADLINE if self.request is not None and self.request.upgraded else BODY_DEADLINE
