from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable
from syncless.http.buffers cimport Buffers
from syncless.http.deadlines cimport Deadlines
from syncless.http.flusher cimport Flusher
from syncless.http.requestheads cimport RequestHeads
from syncless.http.limits cimport LimitValues
from syncless.http.loglines cimport AccessLog
from syncless.http.responseheads cimport ResponseHeads
from syncless.http.scanner cimport head_limits


cdef class Listener:
    cdef readonly object application        # an Application
    cdef readonly LimitValues limits
    cdef head_limits head_limits
    cdef int linger_checks          # after how many looks a lingering connection is closed in any case
    cdef Py_ssize_t lingering       # connections
    cdef Py_ssize_t slow            # how many of them there are
    cdef dict paces                 # of clients that make us wait for them to take an answer, by descriptor
    cdef dict clients               # connections by client_key(); only if they are limited
    # requests that wait for their turn, in the order of QUEUE_DEADLINE's list
    cdef readonly Py_ssize_t queued
    cdef object certificates        # None, or a callable that gives the SSLContext for a new connection
    cdef bint plain_http            # HTTP on a TLS port, told by its first byte
    cdef object trusted             # None, or called with an address: whether its PROXY header or fields count
    cdef bint proxy_protocol        # trusted peers begin with a PROXY header
    cdef RequestHeads heads                # the application's
    cdef AccessLog access_log       # or None
    cdef readonly object error_log  # an ErrorLog
    cdef bint stopping
    cdef bint starved               # a connection waits in the backlog because there are too many
    cdef Loop loop
    # what is at work, for status pages, tests and stopping
    cdef readonly Py_ssize_t connections
    cdef readonly Py_ssize_t active
    cdef readonly long long requests
    cdef readonly long long accepted
    cdef Deadlines deadlines        # of its connections
    cdef Buffers buffers            # what they have received and what they send
    cdef Flusher flusher            # those that have something to send
    cdef ResponseHeads response_heads   # what they have in common
    cdef Runnable acceptor          # while connections are accepted

    cdef int offer_room(self) except -1
    cdef bint enter(self, str address) except -1
    cdef int leave(self, str address) except -1
    cdef bint next_turn(self) except -1
