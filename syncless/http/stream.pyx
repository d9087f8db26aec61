"""Stream: the bytes of one connection, from and to its descriptor, plain or through TLS.

Takes a Stream, which is a struct in its owner, and the Buffers that give it memory. Received bytes that are
not used at once wait in the inbox. To be sent are the bytes in `out` and at most one large bytes object
behind them. Nothing here waits: a function that cannot go on says so. Knows nothing of HTTP, of deadlines or
of tasklets. Where Python code may run (in the TLS layer) the stream may be closed meanwhile, so that is
looked at afterwards.

A Buffer is a struct in its owner, too, which calls release() before it ends. Most need one block; those come
from a pool. One that grows beyond has memory of its own. `held` counts all of it, so that the owners can be
held to `budget`. The receive buffer `scratch` is borrowed by taking it out of its place: a finaliser that
switches tasklets while it is in use must not lend it twice. Tested by tests/http/units/test_buffers.py.

A TlsLayer is the standard library's SSLObject over two memory buffers. It takes ciphertext from the socket
and gives plain bytes, and the other way round. Certificates and their choice by name: certificates.py.

Next to read: connection.pyx, which owns it, and peer.pyx, by which a request waits for it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
cimport cython
from libc.errno cimport EAGAIN, EINTR, EPIPE, errno
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove
from posix.unistd cimport close as close_fd

from syncless._core.calls.portable cimport MSG_NOSIGNAL  # no-cython-lint: C below has it
from syncless._core.loop cimport Loop
from syncless.http.wire.wire cimport LITTLE, RECEIVE

cdef enum:
    POOL = 64                   # free blocks kept
    MOST = 1 << 30              # bytes in one buffer


@cython.final
cdef class Buffers:
    def __cinit__(self, budget):
        self.budget = budget
        self.scratch = <char*> PyMem_Malloc(RECEIVE)
        self.pool = <char**> PyMem_Malloc(POOL * sizeof(char*))
        if self.scratch == NULL or self.pool == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.free_blocks):
            PyMem_Free(self.pool[i])
        PyMem_Free(self.pool)
        PyMem_Free(self.scratch)

    cdef int reserve(self, Buffer* buffer, size_t size) except -1:
        """Makes room for `size` more bytes. MemoryError leaves the buffer as it was."""
        if buffer.room - buffer.size >= size:
            return 0
        if size > MOST - buffer.size:
            raise MemoryError("more than a gigabyte in a buffer")
        if buffer.data == NULL and size <= BUFFER:
            buffer.data = self.take_block()
            buffer.room = BUFFER
            self.lent += 1
            self.held += BUFFER
            return 0
        return self.grow(buffer, max(<size_t> buffer.room * 2, buffer.size + size))

    cdef int grow(self, Buffer* buffer, size_t room) except -1:
        """Memory of its own for the buffer, of that many bytes."""
        cdef bint pooled = buffer.room == BUFFER
        cdef char* grown = <char*> PyMem_Realloc(NULL if pooled else buffer.data, room)
        if grown == NULL:
            raise MemoryError
        if pooled:
            memcpy(grown, buffer.data, buffer.size)
            self.give_block(buffer.data)
        elif buffer.data == NULL:
            self.lent += 1
        self.held += <Py_ssize_t> room - buffer.room
        buffer.data = grown
        buffer.room = <uint32_t> room
        return 0

    cdef int hold(self, Buffer* buffer, const char* data, size_t size) except -1:
        """As append(), with no more room than that takes where it is little: there may be many half-sent
        heads."""
        if buffer.data == NULL and size <= LITTLE:
            self.grow(buffer, size)
        return self.append(buffer, data, size)

    cdef void release(self, Buffer* buffer) noexcept:
        """Gives the memory back; the buffer is empty then, and can be used again."""
        if buffer.data != NULL:
            self.lent -= 1
            self.held -= buffer.room
            if buffer.room == BUFFER:
                self.give_block(buffer.data)
            else:
                PyMem_Free(buffer.data)
        buffer.data = NULL
        buffer.size = buffer.room = 0

    cdef char* take_block(self) except NULL:
        """A block of BUFFER bytes."""
        cdef char* block
        if self.free_blocks:
            self.free_blocks -= 1
            return self.pool[self.free_blocks]
        block = <char*> PyMem_Malloc(BUFFER)
        if block == NULL:
            raise MemoryError
        return block

    cdef void give_block(self, char* block) noexcept:
        if self.free_blocks < POOL:
            self.pool[self.free_blocks] = block
            self.free_blocks += 1
        else:
            PyMem_Free(block)


cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #define syncless_set_errno(number) (errno = (number))
    """
    void errno_is "syncless_set_errno" (int number) nogil
    int MSG_DONTWAIT
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t send(int fd, const void* data, size_t size, int flags) nogil

cdef extern from "Python.h":
    int PyBUF_WRITE

cdef enum:
    RECORD = 16384          # bytes of plain text in a TLS record, at most
    AT_ONCE = 65536         # encrypted before the client is asked to take them

# imported by the first connection: a server without TLS need not have it
cdef object ssl = None
cdef object SSLWantReadError = None
# methods that are called for each request
cdef object read = None
cdef object write = None
cdef object take_ciphertext = None
cdef object put_ciphertext = None

# the memory that was read into last, which is the same most of the time
cdef object window = None
cdef char* window_start = NULL
cdef size_t window_size = 0


cdef object window_on(char* start, size_t size):
    global window, window_start, window_size
    if window is None or window_start != start or window_size != size:
        window = PyMemoryView_FromMemory(start, size, PyBUF_WRITE)
        window_start, window_size = start, size
    return window


cdef class TlsLayer:
    """One connection's TLS. `context` is an ssl.SSLContext for servers."""

    def __init__(self, context not None):
        global ssl, SSLWantReadError, read, write, take_ciphertext, put_ciphertext
        if ssl is None:
            import ssl as module
            ssl, SSLWantReadError = module, module.SSLWantReadError
            take_ciphertext, put_ciphertext = ssl.MemoryBIO.read, ssl.MemoryBIO.write
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.calls = self.ssl._sslobj
        if read is None:
            read, write = type(self.calls).read, type(self.calls).write
        self.described = {}

    cdef int feed(self, const char* data, Py_ssize_t size) except -1:
        """Ciphertext that was received before the layer was there."""
        put_ciphertext(self.incoming, PyBytes_FromStringAndSize(data, size))
        self.held = True
        return 0

    cdef int handshake(self, int fd) except -2:
        """Goes on as far as it can: READY, WANTS_READ, WANTS_WRITE, FAILED."""
        cdef Py_ssize_t n
        cdef int pushed
        if self.at_work:
            return WANTS_READ
        while True:
            self.at_work = True
            try:
                self.ssl.do_handshake()
                done = True
            except SSLWantReadError:
                done = False
            # ssl.SSLError is an OSError; the alert that says why is still to be sent
            except (OSError, ValueError):
                self.at_work = False
                self.push(fd)
                return FAILED
            self.at_work = False
            pushed = self.push(fd)
            if pushed < 0:
                return FAILED
            if done:
                return READY
            if pushed == 0:
                return WANTS_WRITE
            n = self.fill(fd, True)
            if n < 0:
                return WANTS_READ
            if n == 0:
                return FAILED

    cdef object described_by(self, function):
        """What the function makes of the SSLObject after the handshake, which does not change any more."""
        made = self.described.get(function)
        if made is None:
            made = self.described[function] = function(self.ssl)
        return made

    cdef Py_ssize_t fill(self, int fd, bint peer_shutdown) except -2:
        """Moves ciphertext from the socket to `incoming`: bytes, 0 at the end, -1 when there is none now."""
        cdef char room[RECORD]
        cdef ssize_t n
        if self.closed:
            return 0
        if self.drained and not peer_shutdown:
            return -1
        while True:
            n = recv(fd, room, RECORD, MSG_DONTWAIT)
            if n > 0:
                self.drained = n < RECORD
                put_ciphertext(self.incoming, PyBytes_FromStringAndSize(room, n))
                self.held = True
                return n
            if n == 0:
                return 0
            if errno == EAGAIN:
                self.drained = True
                return -1
            if errno != EINTR:
                return 0

    cdef Py_ssize_t receive(self, int fd, char* into, size_t room, bint peer_shutdown) except -2:
        """Plain bytes; 0 at the end, orderly or not; -1 when there are none now."""
        cdef Py_ssize_t n = 0
        if self.at_work:
            return -1
        self.at_work = True                         # also while `incoming` is filled: `into` must stay
        try:
            while True:
                if n > 0 or self.full or self.held and self.incoming.pending:
                    try:
                        n = read(self.calls, room, window_on(into, room))
                        self.full = <size_t> n == room
                        return n
                    except SSLWantReadError:
                        self.full = False
                    except (OSError, ValueError):   # the client's close_notify, or bytes that are no TLS
                        return 0
                    finally:
                        if self.outgoing.pending:   # an alert, or the answer to a key update
                            self.push(fd)
                self.held = False
                n = self.fill(fd, peer_shutdown)
                if n <= 0 or self.closed:
                    return min(n, <Py_ssize_t> 0)
        finally:
            self.at_work = False

    cdef int push(self, int fd) except -2:
        """Sends ciphertext: 1 when all of it is gone, 0 when the client has to take some first, -1 when it is
        gone."""
        cdef ssize_t n
        cdef bint empty = False                     # `outgoing`, and no Python code has run since
        while True:
            if self.unsent is None:
                if empty:
                    return -1 if self.closed else 1
                self.unsent = take_ciphertext(self.outgoing)
                self.unsent_from = 0
                empty = True
            if self.closed:                         # Python code has run: the descriptor may be another's
                return -1
            if self.unsent_from == PyBytes_GET_SIZE(self.unsent):
                self.unsent = None
                continue
            n = send(fd, PyBytes_AS_STRING(self.unsent) + self.unsent_from,
                PyBytes_GET_SIZE(self.unsent) - self.unsent_from,
                     MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                if errno == EINTR:
                    continue
                return 0 if errno == EAGAIN else -1
            self.unsent_from += n

    cdef int push_on(self, int fd) except -2:
        """As push(). Whatever has put ciphertext into `outgoing` since has pushed it, too."""
        return 1 if self.unsent is None and not self.closed else self.push(fd)

    cdef Py_ssize_t send(self, int fd, const char* a, size_t na, const char* b, size_t nb) except -2:
        """As send(2) of a and then b: how many plain bytes were taken; -1 with errno. Bytes that
        were taken may still have to be pushed. EINTR: Python code has run, so the caller looks again where
        its bytes are."""
        cdef size_t n
        cdef bytes plain                            # a copy: the buffers may be gone when Python code has run
        cdef int pushed = 0
        if self.at_work or self.closed or self.unsent is not None:
            if not self.at_work:
                pushed = self.push(fd)
            errno_is(EPIPE if pushed < 0 else EAGAIN if pushed == 0 else EINTR)
            return -1
        if na and nb and na + nb <= RECORD:         # head and body in one record
            plain = PyBytes_FromStringAndSize(NULL, na + nb)
            memcpy(PyBytes_AS_STRING(plain), a, na)
            memcpy(PyBytes_AS_STRING(plain) + na, b, nb)
        else:
            if na == 0:
                a = b
                na = nb
            plain = PyBytes_FromStringAndSize(a, na if na < AT_ONCE else AT_ONCE)
        self.at_work = True
        try:
            n = write(self.calls, plain)
        except (OSError, ValueError):
            errno_is(EPIPE)
            return -1
        finally:
            self.at_work = False
        if self.push(fd) < 0:
            errno_is(EPIPE)
            return -1
        return n

    cdef int goodbye(self, int fd) except -1:
        """Says that no more will be sent (close_notify), as far as the client takes it without waiting."""
        if self.said_goodbye or self.at_work:
            return 0
        self.said_goodbye = True
        self.at_work = True
        try:
            self.ssl.unwrap()
        except (OSError, ValueError):               # it would wait for the client's own
            pass
        finally:
            self.at_work = False
        self.push(fd)
        return 0


cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/socket.h>
    #include <sys/uio.h>

    /* Head and body in one system call. */
    static ssize_t syncless_send2(int fd, const char *a, size_t na, const char *b, size_t nb) {
        struct iovec parts[2];
        struct msghdr message;
        if (nb == 0)
            return send(fd, a, na, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (na == 0)
            return send(fd, b, nb, MSG_DONTWAIT | MSG_NOSIGNAL);
        parts[0].iov_base = (void *)a;
        parts[0].iov_len = na;
        parts[1].iov_base = (void *)b;
        parts[1].iov_len = nb;
        memset(&message, 0, sizeof message);
        message.msg_iov = parts;
        message.msg_iovlen = 2;
        return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }

    static void syncless_reset(int fd) {
        struct linger hard = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    """
    int MSG_PEEK, SHUT_WR
    int shutdown(int fd, int how) nogil
    ssize_t recv(int fd, void* data, size_t size, int flags) nogil
    ssize_t send2 "syncless_send2" (int fd, const char* a, size_t na, const char* b, size_t nb) nogil
    void make_reset "syncless_reset" (int fd) nogil

cdef enum:
    INBOX = 8192        # bytes that a body may have in the inbox


# -- bytes that come -----------------------------------------------------------------------------------------


cdef Py_ssize_t receive(Stream* stream, Buffers buffers, char* into, size_t room) except -2:
    """Bytes received; 0 when the client has closed or failed; -1 when nothing is there now."""
    cdef TlsLayer layer
    cdef Py_ssize_t n
    if stream.layer == NULL:
        n = receive_raw(stream, into, room)
        if n > 0:
            buffers.received += n
        return n
    if stream.ended:
        return 0
    layer = <TlsLayer> stream.layer
    n = layer.receive(stream.fd, into, room, stream.peer_shutdown)
    if stream.fd < 0:                           # closed while Python code ran; the inbox was left for `into`
        buffers.release(&stream.inbox)
        n = 0
    if n == 0:
        stream.ended = True
    elif n < 0:
        stream.readable = stream.peer_shutdown = False
    else:
        buffers.received += n
    return n


cdef Py_ssize_t receive_raw(Stream* stream, char* into, size_t room) noexcept:
    """As receive(), of the bytes on the wire."""
    cdef Py_ssize_t n
    if stream.ended:
        return 0
    while True:
        n = recv(stream.fd, into, room, MSG_DONTWAIT)
        if n > 0:
            if n < <Py_ssize_t> room and not stream.peer_shutdown:
                stream.readable = False         # drained; the next byte makes an event
            return n
        if n < 0 and errno == EINTR:
            continue
        if n < 0 and errno == EAGAIN:
            stream.readable = stream.peer_shutdown = False
            return -1
        stream.ended = True
        return 0


cdef Py_ssize_t receive_more(Stream* stream, Buffers buffers) except -2:
    """As receive(), behind what is in the inbox already, which gets room for a body."""
    cdef Py_ssize_t n
    if not is_receivable(stream) or is_at_work(stream):
        return -1
    if stream.inbox_start:
        compact(stream, buffers)
    if stream.inbox.room - stream.inbox.size < 1024:
        buffers.reserve(&stream.inbox, INBOX)
    n = receive(stream, buffers, stream.inbox.data + stream.inbox.size, stream.inbox.room - stream.inbox.size)
    if n > 0:
        stream.inbox.size += <uint32_t> n
    elif stream.inbox.size == 0:
        buffers.release(&stream.inbox)
    return n


cdef Py_ssize_t receive_little(Stream* stream, Buffers buffers) except -2:
    """The same with no more room than the bytes need: a half-sent head may stay for long."""
    cdef char* borrowed = buffers.scratch
    cdef Py_ssize_t n
    if borrowed == NULL:                        # a finaliser switched while another connection had it
        return receive_more(stream, buffers)
    if not is_receivable(stream) or is_at_work(stream):
        return -1
    if stream.inbox_start:
        compact(stream, buffers)
    buffers.scratch = NULL
    try:
        n = receive(stream, buffers, borrowed, RECEIVE)
        if n > 0:
            buffers.hold(&stream.inbox, borrowed, n)
    finally:
        buffers.scratch = borrowed
    return n


cdef Py_ssize_t borrow_input(Stream* stream, Buffers buffers, Input* input) except -2:
    """All bytes that have come and are not used yet, where they lie: in the inbox, or else, received now, in
    the buffer that all streams share. The result is receive()'s; if it is positive, return_input() must
    follow. `input.size` is 0 at first; called again, it receives more than that."""
    cdef Py_ssize_t waiting = stream.inbox.size - stream.inbox_start
    cdef Py_ssize_t n = 0
    input.shared = waiting == 0 and is_receivable(stream) and buffers.scratch != NULL
    if input.shared:
        input.data = buffers.scratch
        buffers.scratch = NULL
        try:
            n = input.size = receive(stream, buffers, input.data, RECEIVE)
        finally:
            if n <= 0:
                buffers.scratch = input.data
        return n
    if waiting == input.size:
        n = receive_little(stream, buffers)
        if n <= 0 or stream.inbox.size == 0:
            return min(n, <Py_ssize_t> 0)
    stream.lent = True
    input.data = stream.inbox.data + stream.inbox_start
    input.size = stream.inbox.size - stream.inbox_start
    return input.size


cdef int return_input(Stream* stream, Buffers buffers, Input* input, Py_ssize_t used) except -1:
    """The first `used` bytes are used up; the others wait in the inbox."""
    if not input.shared:
        stream.lent = False
        consume_inbox(stream, buffers, used)
        if stream.fd < 0:                       # closed meanwhile
            buffers.release(&stream.inbox)
            stream.inbox_start = 0
        return 0
    buffers.scratch = input.data
    return buffers.hold(&stream.inbox, input.data + used, input.size - used) if used < input.size else 0


cdef bint has_bytes(Stream* stream) noexcept:
    """Whether the socket has bytes that have not been received."""
    cdef char byte
    return recv(stream.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0


cdef bytes first_bytes(Stream* stream, Py_ssize_t most):
    """Those that have been received and not used yet."""
    if stream.inbox.data == NULL:
        return b""
    return PyBytes_FromStringAndSize(
        stream.inbox.data + stream.inbox_start,
        min(most, <Py_ssize_t> stream.inbox.size - stream.inbox_start))


cdef int compact(Stream* stream, Buffers buffers) except -1:
    """Moves the rest of the inbox to its start, and a small rest out of a large buffer."""
    cdef Buffer old = stream.inbox
    cdef size_t left = old.size - stream.inbox_start
    if left <= LITTLE:
        stream.inbox.data = NULL
        stream.inbox.size = stream.inbox.room = 0
        buffers.hold(&stream.inbox, old.data + stream.inbox_start, left)
        buffers.release(&old)
    else:
        memmove(old.data, old.data + stream.inbox_start, left)
        stream.inbox.size = <uint32_t> left
    stream.inbox_start = 0
    return 0


cdef void consume_inbox(Stream* stream, Buffers buffers, Py_ssize_t n) noexcept:
    """The first n bytes of the inbox are used up."""
    stream.inbox_start += <uint32_t> n
    if stream.inbox_start >= stream.inbox.size:
        stream.inbox_start = 0
        buffers.release(&stream.inbox)


# -- bytes that go -------------------------------------------------------------------------------------------


cdef ssize_t transmit(Stream* stream, const char* a, size_t na, const char* b, size_t nb) except -2:
    """As send(2) of a and then b, through the layer if there is one."""
    if stream.layer == NULL:
        return send2(stream.fd, a, na, b, nb)
    return transmit_encrypted(stream, a, na, b, nb)


cdef ssize_t transmit_encrypted(Stream* stream, const char* a, size_t na, const char* b, size_t nb) except -2:
    cdef TlsLayer layer = <TlsLayer> stream.layer
    return layer.send(stream.fd, a, na, b, nb)


cdef int push_ciphertext(Stream* stream) except -2:
    """Sends what the layer has kept: 1 when all of it is gone, 0 when the client has to take some first, -1
    when it is gone."""
    cdef TlsLayer layer
    if stream.layer == NULL:
        return 1
    layer = <TlsLayer> stream.layer
    return layer.push_on(stream.fd)


cdef int send_pending(Stream* stream, Buffers buffers) except -2:
    """Sends `out` and the body behind it, as far as the client takes them now: SENT_ALL, STALLED,
    FAILED_TO_SEND."""
    cdef size_t body_size, head_left, body_left
    cdef const char* body
    cdef ssize_t n
    while True:
        body_size = 0 if stream.out_body == NULL else PyBytes_GET_SIZE(<object> stream.out_body)
        if stream.out_sent == stream.out.size + body_size:
            if stream.layer == NULL:
                break
            n = push_ciphertext(stream)
            if n > 0 and unsent(stream) and not stream.gone:
                continue                        # put there while Python code ran
            if n > 0:
                break
            if n < 0:
                return FAILED_TO_SEND
            stream.stalled = True
            return STALLED
        if body_size == 0:
            n = transmit(stream, stream.out.data + stream.out_sent, stream.out.size - stream.out_sent, NULL,
                0)
        else:
            head_left = stream.out.size - stream.out_sent if stream.out_sent < stream.out.size else 0
            body_left = stream.out.size + body_size - stream.out_sent - head_left
            body = PyBytes_AS_STRING(<object> stream.out_body) + body_size - body_left
            n = transmit(stream, stream.out.data + stream.out_sent, head_left, body, body_left)
        if n < 0:
            if stream.gone:                     # closed while Python code ran in the layer
                return FAILED_TO_SEND
            if errno == EINTR:
                continue
            if errno != EAGAIN:
                return FAILED_TO_SEND
            stream.stalled = True
            return STALLED
        if stream.gone:
            return FAILED_TO_SEND
        stream.out_sent += n
        buffers.sent += n
    drop_unsent(stream, buffers)
    stream.stalled = False
    return SENT_ALL


cdef void set_out_body(Stream* stream, bytes body) noexcept:
    """The body is sent behind `out`. There is none yet, and nothing is put into `out` until it is gone."""
    Py_INCREF(body)
    stream.out_body = <PyObject*> body


cdef void drop_unsent(Stream* stream, Buffers buffers) noexcept:
    cdef PyObject* body = stream.out_body
    buffers.release(&stream.out)
    stream.out_sent = 0
    stream.out_body = NULL
    Py_XDECREF(body)


# -- the end -------------------------------------------------------------------------------------------------


cdef int half_close(Stream* stream, Buffers buffers) except -1:
    """Tells the client that no more will be sent. Bytes that it still sends are not kept."""
    cdef TlsLayer layer
    buffers.release(&stream.inbox)
    stream.inbox_start = 0
    if stream.layer != NULL:
        layer = <TlsLayer> stream.layer
        layer.goodbye(stream.fd)
    if stream.fd >= 0:                          # else closed while Python code ran
        shutdown(stream.fd, SHUT_WR)
    return 0


cdef int close_stream(Stream* stream, Buffers buffers, Loop loop) except -1:
    """Closes the descriptor, once, unless it was given away; tasklets that wait for it go on. If the stream
    is torn it is reset."""
    cdef TlsLayer layer = None
    if stream.layer != NULL:
        layer = <TlsLayer> stream.layer
        if not stream.torn and not stream.gone:
            layer.goodbye(stream.fd)
        layer.closed = True
    stream.gone = stream.ended = True
    if stream.fd >= 0:
        loop.fds.forget(stream.fd)
        if stream.torn:
            make_reset(stream.fd)
        close_fd(stream.fd)
        stream.fd = -1
    if not stream.lent and (layer is None or not layer.at_work):    # else the inbox is in use
        buffers.release(&stream.inbox)
        stream.inbox_start = 0
    drop_unsent(stream, buffers)
    return 0


cdef void free_stream(Stream* stream, Buffers buffers) noexcept:
    """The owner ends."""
    buffers.release(&stream.inbox)
    drop_unsent(stream, buffers)
    Py_XDECREF(stream.layer)
    stream.layer = NULL
