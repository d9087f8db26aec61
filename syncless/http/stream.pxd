"""The bytes of a connection: memory for them, TLS, and the socket. See stream.pyx."""

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcpy

from syncless._core.loop cimport Loop
from syncless.http.wire.wire cimport OUT_HIGH

cdef enum:
    BUFFER = 8192       # bytes of a pooled block
    # bytes of another protocol that are read at a time; it bounds how far a compressed message can expand
    PIECE = 4096

cdef struct Buffer:     # all zero: empty, and without memory
    char* data          # a pooled block where room is BUFFER
    uint32_t size       # bytes used
    uint32_t room

cdef class Buffers:
    cdef char* scratch          # RECEIVE bytes; NULL while one borrows it
    cdef char** pool            # blocks that are free
    cdef Py_ssize_t free_blocks
    cdef Py_ssize_t lent        # buffers that have memory
    cdef int64_t held           # bytes of memory they have
    cdef int64_t budget         # bytes that they should have at most
    cdef int64_t received, sent     # bytes that have passed, of all connections, without TLS
    cdef int reserve(self, Buffer* buffer, size_t size) except -1
    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1
    cdef void release(self, Buffer* buffer) noexcept
    cdef int grow(self, Buffer* buffer, size_t room) except -1
    cdef char* take_block(self) except NULL
    cdef void give_block(self, char* block) noexcept

    cdef inline int append(self, Buffer* buffer, const char* data, size_t size) except -1:
        if buffer.room - buffer.size < size:
            self.reserve(buffer, size)
        memcpy(buffer.data + buffer.size, data, size)
        buffer.size += <uint32_t> size
        return 0


cdef enum Shake:        # the result of a handshake, or of another step before HTTP
    FAILED = -1
    WANTS_READ = 0
    WANTS_WRITE = 1
    READY = 2


cdef class TlsLayer:
    cdef object ssl                 # ssl.SSLObject
    cdef object calls               # what its methods read() and write() call
    cdef object incoming            # ssl.MemoryBIO: ciphertext that has come
    cdef object outgoing            # and that is to go
    cdef bytes unsent               # ciphertext that the client has not taken yet
    cdef Py_ssize_t unsent_from
    cdef bint held                  # `incoming` may hold bytes
    cdef bint full                  # it may hold more of a record than was asked for
    cdef bint drained               # the socket was empty when last asked, and no event has come since
    cdef bint at_work               # in OpenSSL: a finaliser that switched must not come back
    cdef bint closed                # and the descriptor may be somebody else's by the time that it does
    cdef bint said_goodbye
    cdef dict described             # what each function of described_by() has made of the handshake
    cdef int feed(self, const char* data, Py_ssize_t size) except -1
    cdef int handshake(self, int fd) except -2
    cdef Py_ssize_t receive(self, int fd, char* into, size_t room, bint peer_shutdown) except -2
    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2
    cdef int push(self, int fd) except -2
    cdef int push_on(self, int fd) except -2
    cdef int goodbye(self, int fd) except -1
    cdef Py_ssize_t fill(self, int fd, bint peer_shutdown) except -2
    cdef object described_by(self, function)


cdef enum Sending:          # the outcome of sending
    FAILED_TO_SEND = -1     # the client takes nothing more, ever
    STALLED = 0             # the client takes no more now
    SENT_ALL = 1

cdef struct Stream:             # embedded in its owner, which calls close_stream() and free_stream()
    PyObject* layer             # owned: a TlsLayer; NULL: plain
    PyObject* out_body  # owned: bytes that are sent behind those in `out`, from the application's object
    size_t out_sent             # bytes of both that are gone
    Buffer inbox                # received and not used yet
    Buffer out                  # to be sent
    uint32_t inbox_start        # bytes of the inbox that are used up
    int fd                      # -1 once closed
    uint8_t readable            # recv() may have something
    uint8_t peer_shutdown       # the client sends no more; recv() is worth trying until it says so
    uint8_t ended               # recv() has said so
    uint8_t stalled             # the client is slow; more is sent when it is ready
    uint8_t gone                # nothing more can be sent
    uint8_t carried             # it is one of several in a connection, and has no descriptor
    uint8_t lent                # bytes of the inbox are in use: return_input() follows, until then they stay
    uint8_t torn                # the client must not take what it has for the whole: reset when it is closed

cdef struct Input:              # the result of borrow_input()
    char* data
    Py_ssize_t size
    bint shared                 # they lie in the receive buffer that all share, else in the inbox

cdef Py_ssize_t receive(Stream* stream, Buffers buffers, char* into, size_t room) except -2
cdef Py_ssize_t receive_raw(Stream* stream, char* into, size_t room) noexcept
cdef Py_ssize_t receive_more(Stream* stream, Buffers buffers) except -2
cdef bytes read_now(Stream* stream, Buffers buffers)
cdef Py_ssize_t receive_little(Stream* stream, Buffers buffers) except -2
cdef Py_ssize_t borrow_input(Stream* stream, Buffers buffers, Input* input) except -2
cdef int return_input(Stream* stream, Buffers buffers, Input* input, Py_ssize_t used) except -1
cdef bint has_bytes(Stream* stream) noexcept
cdef bytes first_bytes(Stream* stream, Py_ssize_t most)
cdef int compact(Stream* stream, Buffers buffers) except -1
cdef void consume_inbox(Stream* stream, Buffers buffers, Py_ssize_t n) noexcept

cdef ssize_t transmit(Stream* stream, const char* a, size_t na, const char* b, size_t nb) except -2
cdef int push_ciphertext(Stream* stream) except -2
cdef int send_pending(Stream* stream, Buffers buffers) except -2
cdef void set_out_body(Stream* stream, bytes body) noexcept
cdef void drop_unsent(Stream* stream, Buffers buffers) noexcept

cdef int half_close(Stream* stream, Buffers buffers) except -1
cdef int close_stream(Stream* stream, Buffers buffers, Loop loop) except -1
cdef void free_stream(Stream* stream, Buffers buffers) noexcept

cdef inline bint is_at_work(Stream* stream) noexcept:
    """Whether its layer is receiving, perhaps into the inbox, and has let others run."""
    return stream.layer != NULL and (<TlsLayer> stream.layer).at_work

cdef inline bint is_receivable(Stream* stream) noexcept:
    """Whether receiving is worth a system call."""
    return stream.readable or stream.peer_shutdown

cdef inline bint has_input(Stream* stream) noexcept:
    return stream.inbox.size or stream.readable or stream.peer_shutdown

cdef inline void set_readable(Stream* stream) noexcept:
    """An event, or a look into the socket, has said that bytes are there."""
    stream.readable = True
    if stream.layer != NULL:
        (<TlsLayer> stream.layer).drained = False

cdef inline bint keeps_up(Stream* stream) noexcept:
    """Whether the client takes what is sent fast enough to be given more."""
    return not stream.stalled and stream.out.size < OUT_HIGH and stream.out_body == NULL

cdef inline size_t unsent(Stream* stream) noexcept:
    """Bytes that have not gone to the client, or to the layer."""
    cdef size_t body = 0 if stream.out_body == NULL else PyBytes_GET_SIZE(<object> stream.out_body)
    return stream.out.size + body - stream.out_sent

cdef inline bint has_unsent(Stream* stream) noexcept:
    return stream.out.size or stream.out_body != NULL
