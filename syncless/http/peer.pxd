from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from syncless._core.loop cimport Loop, Watcher
from syncless._core.wait.waitqueue cimport WaitQueue
from syncless.http.listener cimport Listener
from syncless.http.stream cimport Stream
from syncless.http.wire.wire cimport framing, head, limits

cdef enum:
    DIRECT = 16384              # bytes of a body wanted from which on they bypass the connection's buffer

cdef struct Incoming:           # a request that has come, and where from; all of it is borrowed
    PyObject* listener
    PyObject* connection        # a Watcher, the stream's owner
    Stream* stream
    PyObject* address           # str; "" for a UNIX socket
    int port                    # -1: the family has none
    bint trusted                # the client's forwarded fields count
    const char* data            # its head
    head* found                 # what the scanner has found there
    int fd                      # of its connection


cdef class Carried(Watcher):    # the owner of a stream that is one of several in a connection
    cdef WaitQueue readers, writers     # tasklets that wait for bytes of the body, or for room
    cdef int32_t id                     # its number in the connection

    cdef int send_head(self) except -1
    cdef int set_trailers(self, bytes trailers) except -1
    cdef int send_all(self, Peer peer, const char* data, Py_ssize_t size) except -1
    cdef int send_soon(self) except -1
    cdef int wait_writable(self, Peer peer) except -1
    cdef int expired(self, Loop loop, int kind) except -1
    cdef void consumed(self) noexcept


cdef class Peer:
    cdef Listener listener
    cdef Watcher owner              # of the stream; None: the request has ended
    cdef Stream* stream             # NULL then
    cdef bint trusted               # its forwarded fields count
    cdef bint upgraded              # it speaks another protocol: its input has no rate, its silence is pinged
    cdef bint answered              # its final answer has begun
    cdef int64_t waited             # ns that the request has waited for its body
    cdef int64_t received           # bytes that came meanwhile

    cdef void begin(self, const Incoming* incoming) noexcept
    cdef int end(self) except -1
    cdef bint is_gone(self) noexcept
    cdef bint is_read(self) noexcept
    cdef bint has_left(self) noexcept
    cdef bint may_have_left(self) noexcept
    cdef int watch_end(self) except -1

    cdef Py_ssize_t available(self, char** data) except -1
    cdef Py_ssize_t more(self) except -1
    cdef void consume(self, Py_ssize_t n) noexcept
    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -2
    cdef int expected(self) except -1
    cdef bint may_have_more(self) noexcept
    cdef int take_turns_to_read(self) except -1
    cdef int wait_readable(self) except -1
    cdef int check_rate(self) except -1

    cdef inline int append(self, const char* data, size_t size) except -1:
        if self.stream == NULL:
            self.fail_ended()
        return self.listener.buffers.append(&self.stream.out, data, size)

    cdef inline size_t pending(self) noexcept:
        return 0 if self.stream == NULL else self.stream.out.size

    cdef inline Py_ssize_t at_hand(self, char** data) noexcept:
        """As available(), without waiting."""
        if self.stream == NULL:
            return 0
        data[0] = self.stream.inbox.data + self.stream.inbox_start
        return self.stream.inbox.size - self.stream.inbox_start

    cdef inline bint has_body(self) noexcept:
        return self.stream != NULL and self.stream.out_body != NULL

    cdef inline int send_head(self) except -1:
        """What is pending are heads of responses, and they go to frames of their own."""
        if self.stream == NULL:
            self.fail_ended()
        owner = <Carried> self.owner            # kept: others may run, and the request end
        return owner.send_head()

    cdef inline int set_trailers(self, bytes trailers) except -1:
        """Their lines, for the end of the response."""
        if self.stream == NULL:
            self.fail_ended()
        owner = <Carried> self.owner
        return owner.set_trailers(trailers)

    cdef int fail_ended(self) except -1
    cdef int set_body(self, bytes body) except -1
    cdef int send_soon(self) except -1
    cdef int send_all(self, const char* data, Py_ssize_t size) except -1
    cdef int send_whole(self, const char* data, Py_ssize_t size) except -1
    cdef Py_ssize_t send_at_once(self, const char* data, Py_ssize_t size) except -1
    cdef int send_file(self, int fd, int64_t offset, int64_t count, bint slow) except -1
    cdef int wait_writable(self) except -1
    cdef int abort(self) except -1

    cdef Stream* open_stream(self) except NULL
    cdef WaitQueue* waiters(self, Loop loop, int bit) except NULL
    cdef int wait(self, int bit, const char* why, int64_t ns) except -1


cdef class Body:
    cdef Peer source                # None: the request has ended
    cdef framing framing            # which bytes of the connection are its own
    cdef bint expects_continue      # the client waits for 100 (Continue)
    cdef bint broken                # its framing failed: the connection is of no more use

    cdef void begin(self, Peer source, int64_t length, bint chunked, bint expects_continue) noexcept
    cdef inline void end(self) noexcept:
        """The request has ended: reading raises ClientGone from now on."""
        self.source = None

    cdef Py_ssize_t window(self, char** data) except -1
    cdef void advance(self, Py_ssize_t n) noexcept
    cdef Py_ssize_t read_into(self, char* into, Py_ssize_t n) except -1
    cdef bint at_hand(self) noexcept
    cdef Py_ssize_t gather(self, char* into, Py_ssize_t n) except -1
    cdef bint drainable(self, Py_ssize_t most) noexcept
    cdef bint is_read(self) noexcept
    cdef bint drain(self, Py_ssize_t most) except -1

    cdef Peer readable_source(self)
    cdef bint next_chunk(self) except -1
    cdef int fail_framing(self, const limits* by, int reason) except -1
    cdef int wait_for_more(self) except -1
    cdef int fail_gone(self) except -1
