from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int64_t, uint8_t, uint32_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable, Scheduler
from syncless._core.timers cimport Timer
from syncless.http.body cimport ByteSource
from syncless.http.loglines cimport AccessLog
from syncless.http.environ cimport EnvironMaker
from syncless.http.limits cimport LimitValues
from syncless.http.scanner cimport head_limits

cdef enum:
    NO_DEADLINE = -1
    HEAD_DEADLINE = 0       # a request head, from its first byte to its end
    IDLE_DEADLINE = 1       # between requests
    BODY_DEADLINE = 2       # without a byte of the body that is waited for
    WRITE_DEADLINE = 3      # without progress in sending
    LINGER_DEADLINE = 4     # a refused client may go on sending for so long
    GREETING_DEADLINE = 5   # a PROXY header and a TLS handshake, from the connection's start
    PING_DEADLINE = 6       # without a byte from a WebSocket
    QUEUE_DEADLINE = 7      # a request that waits for its turn
    DEADLINES = 8

cdef struct Buffer:         # bytes to be sent; blocks of BUFFER bytes come from the listener's pool
    char* data
    uint32_t size
    uint32_t room


cdef class Link(ByteSource):
    cdef int8_t deadline_kind
    cdef uint8_t flush_queued
    cdef int64_t deadline
    cdef PyObject* previous     # borrowed: neighbours in the list of the same deadline
    cdef PyObject* following
    cdef int expired(self, Loop loop, int kind) except -1
    cdef int flush(self, Loop loop) except -1
    cdef bint holds(self) noexcept


cdef struct DeadlineList:
    PyObject* first
    PyObject* last
    int64_t length              # ns


cdef class Flusher(Runnable):
    cdef Listener listener


cdef class Listener:
    cdef readonly object application
    cdef readonly LimitValues limits
    cdef head_limits head_limits
    cdef int linger_checks          # after how many looks a lingering connection is closed in any case
    cdef Py_ssize_t lingering       # connections
    cdef Py_ssize_t slow            # how many of them there are
    cdef dict paces                 # of clients that make us wait for them to take an answer, by descriptor
    cdef dict clients               # connections by client_key(); only if they are limited
    cdef int64_t buffered   # bytes in buffers of connections
    # requests that wait for their turn, in the order of QUEUE_DEADLINE's list
    cdef readonly Py_ssize_t queued
    cdef object tls                 # None, or a callable that gives the SSLContext for a new connection
    cdef bint plain_too             # HTTP on a TLS port, told by its first byte
    cdef object trusts  # None, or called with an address: whether its PROXY header or forwarded fields count
    cdef bint proxied               # trusted peers begin with a PROXY header
    cdef object forward             # called with the environ of a trusted peer's request
    cdef object websocket           # None, or makes what an application finds as environ["wsgi.websocket"]
    cdef EnvironMaker environs
    cdef AccessLog log_access       # or None
    cdef readonly object log_errors       # a text stream
    cdef bint stopping
    cdef bint starved               # a connection waits in the backlog because there are too many
    cdef Loop loop
    # what is at work, for status pages, tests and stopping
    cdef readonly Py_ssize_t connections
    cdef readonly Py_ssize_t active
    cdef readonly long long requests
    cdef readonly long long accepted
    # deadlines: one list per kind, because all of a kind have the same length
    cdef DeadlineList lists[8]
    cdef Timer timer
    # what is sent at the end of a turn
    cdef Flusher flusher
    cdef PyObject** pending         # owned Links
    cdef Py_ssize_t pending_count, pending_capacity
    cdef int64_t pending_since
    # the receive buffer that connections lend one another, and the pool of send buffers
    cdef char* scratch
    cdef char** pool
    cdef Py_ssize_t pool_count
    cdef Py_ssize_t buffers_out
    # the head of responses: date and server, made anew each second
    cdef int64_t date_at
    cdef bytes date_block
    cdef dict status_lines          # status -> (line, code)
    cdef object last_status
    cdef bytes last_line            # of last_status
    cdef int last_code
    # headers of the last response of one bytes block and what they became: see Request.accept_head()
    cdef tuple head_items
    cdef object head_status
    cdef bytes head_date
    cdef bytes head                 # with the empty line at its end
    cdef int64_t head_length
    cdef bint head_closes
    cdef object spare_request       # the last one that has ended, to be used again
    cdef Runnable acceptor          # while connections are accepted

    cdef void set_deadline(self, Link link, int kind) noexcept
    cdef int64_t since(self, Link link) noexcept
    cdef int queue_flush(self, Link link) except -1
    cdef int flush_pending(self) except -1
    cdef char* take_block(self) except NULL
    cdef void give_block(self, char* block) noexcept
    cdef int append(self, Buffer* buffer, const char* data, size_t size) except -1
    cdef int reserve(self, Buffer* buffer, size_t size) except -1
    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1
    cdef int shed_slow_heads(self) except -1
    cdef int offer_room(self) except -1
    cdef bint enter(self, str address) except -1
    cdef int leave(self, str address) except -1
    cdef bint next_turn(self) except -1
    cdef void release(self, Buffer* buffer) noexcept
    cdef int status_code(self, object status) except -1
    cdef bytes dates(self)

cdef enum:
    BUFFER = 8192
    SCRATCH = 65536
    LITTLE = 2048       # bytes that hold() keeps without room for more
