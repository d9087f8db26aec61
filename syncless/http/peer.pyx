"""Peer: the client as a request sees it. It waits for bytes that have not come, and for room to send.
Body: the body of one request, read on demand, whatever its framing (wire/body.h).

Takes the Stream of a connection while a request runs. Gives a body its bytes, and sends a response's. Each
wait parks the tasklet, with a deadline of its own: limits.py bounds each wait, all waits together, and
the data rate of a client, for bodies and for writing. Knows no HTTP message.

A Body takes the framing that the head announces, and gives its bytes. An error in it is raised as a
ClientError. Trailers are read and dropped (RFC 9112, 7.1.2). Knows nothing of the application that reads.

available()  how many bytes lie ready at *data, waiting for the first; 0 when the client has closed
at_hand()    the same without waiting
more()       waits for bytes behind those; how many came, 0 when the client has closed
consume(n)   the first n are used up
direct()     puts up to n bytes straight into the caller's memory; 0 when the client has closed; -1 after it
             had to wait: look again, for another tasklet may have read meanwhile
expected()   tells the client to go on (100), unless its response has begun
append()     what is put here is pending: it is sent at the end of the turn, or by send_all()
set_body()   a large body behind it, straight from the application's object
send_all()   sends all that is pending and then the data, now
send_file()  the same with bytes of a file, by sendfile
send_soon()  what is pending is sent at the end of this turn, though the request goes on
abort()      the client must not take what it has for the whole: the connection is reset as the request ends

A stream that is carried has no descriptor: several requests share a connection, by the frames of another
protocol. Its owner (Carried) puts the bytes into frames and takes them out; what a request sees of its client
is the same.

send_head()      what is pending are heads of responses
set_trailers()   fields that follow the body
send_all()       as above, for the peer; it may keep some, and waits while it has much
send_soon()      as above
wait_writable()  parks the tasklet that sends until the client has taken something
expired()        it has waited for too long for its turn
consumed()       bytes of the inbox are used up, or more are wanted

While a tasklet waits the request may end, whose Peer serves another one then. So each wait is followed by a
look whether the stream is still the same. An object that an application keeps has its Peer to itself.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, EINVAL, ENOSYS, errno
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from posix.types cimport off_t

from syncless._core.calls.descriptors cimport reading
from syncless._core.calls.filesystems cimport in_pool, lies_in_memory
from syncless._core.calls.portable cimport sendfile
from syncless._core.current cimport take_turns, wait_fd, wait_foreign_fd, wait_in
from syncless._core.loop cimport FdEntry, Loop, Watcher
from syncless._core.poll.now cimport has_hung_up
from syncless._core.poll.poller cimport READ, WRITE
from syncless._core.scheduler cimport TIMED_OUT, is_poll_due
from syncless._core.threadloop cimport get_loop
from syncless._core.wait.waitqueue cimport WaitQueue, someone_waits, wake_all
from syncless.http.listener cimport WRITE_DEADLINE, Listener
from syncless.http.stream cimport (
    SENT_ALL, STALLED, Stream, consume_inbox, drop_unsent, has_unsent, is_receivable, push_ciphertext,
    receive, receive_more, send_pending, set_out_body, transmit, unsent,
)
from syncless.http.wire.wire cimport (
    R_BODY_TOO_LARGE, R_CHUNK_LINE_TOO_LONG, R_TRAILERS_TOO_LARGE, REPLY_CONTINUE, TOO_LONG, TOO_SLOW,
    body_begin, body_data_rate, body_take, framing, limits, scan_body_line,
)

from syncless._core.calls.filesystems import bring_in
from syncless.http.errors import (
    REFUSALS, BadRequest, BodyTimeout, BodyTooLarge, ConnectionLost, TrailersTooLarge,
)


cdef class Carried(Watcher):
    cdef int send_head(self) except -1:
        return 0

    cdef int set_trailers(self, bytes trailers) except -1:
        return 0

    cdef int send_all(self, Peer peer, const char* data, Py_ssize_t size) except -1:
        return 0

    cdef int send_soon(self) except -1:
        return 0

    cdef int wait_writable(self, Peer peer) except -1:
        return 0

    cdef int expired(self, Loop loop, int kind) except -1:
        return 0

    cdef void consumed(self) noexcept:
        pass


@cython.final
cdef class Peer:
    def __cinit__(self, Listener listener not None):
        self.listener = listener

    cdef void begin(self, const Incoming* incoming) noexcept:
        """A request begins."""
        self.owner = <Watcher> incoming.connection
        self.stream = incoming.stream
        self.trusted = incoming.trusted
        self.upgraded = self.answered = False
        self.waited = self.received = 0

    cdef int end(self) except -1:
        """The request has ended, or will never begin. Tasklets that still wait meet ClientGone."""
        cdef FdEntry* entry
        if self.stream == NULL:
            return 0
        if self.stream.fd >= 0:
            entry = &self.listener.loop.fds.entries[self.stream.fd]
            if entry.writers.first != NULL and someone_waits(&entry.writers):
                self.stream.torn |= not self.upgraded       # in the middle of a response
                wake_all(&entry.writers)
            if entry.readers.first != NULL:
                wake_all(&entry.readers)
        self.stream = NULL
        self.owner = None
        return 0

    cdef bint is_gone(self) noexcept:
        """Return whether nothing more can be sent."""
        return self.stream == NULL or self.stream.gone

    cdef bint is_read(self) noexcept:
        """Return whether a tasklet of the listener's thread waits for bytes of an HTTP/1.1 client."""
        return self.stream != NULL and self.stream.fd >= 0 and someone_waits(
            &self.listener.loop.fds.entries[self.stream.fd].readers)

    cdef bint has_left(self) noexcept:
        """Return whether the client has closed the connection, or at least its sending half."""
        return self.is_gone() or has_hung_up(self.stream.fd)

    cdef bint may_have_left(self) noexcept:
        """Return whether a look is worth a system call: an event may have told of it, that will not come
        again."""
        if self.is_gone() or self.stream.carried:
            return True
        return self.stream.ended or is_receivable(self.stream)

    cdef int watch_end(self) except -1:
        """The loop tells the connection when the client leaves."""
        cdef Loop loop = self.listener.loop
        if self.is_gone() or self.stream.carried:   # its owner hears it all the same
            return 0
        return loop.fds.arm(self.stream.fd, READ)

    cdef Stream* open_stream(self) except NULL:
        if self.stream == NULL or self.stream.gone:
            raise ConnectionLost("the client has closed the connection")
        return self.stream

    # -- bytes that come -------------------------------------------------------------------------------------

    cdef bint may_have_more(self) noexcept:
        """Return whether bytes seem to be there: a client that is fast enough never makes its request
        wait."""
        return self.stream != NULL and is_receivable(self.stream)

    cdef int take_turns_to_read(self) except -1:
        return take_turns() if self.may_have_more() else 0

    cdef Py_ssize_t available(self, char** data) except -1:
        if self.stream == NULL:
            raise ConnectionLost("the request has ended")
        if self.stream.inbox.size == 0 and self.more() == 0:
            return 0
        return self.at_hand(data)

    cdef Py_ssize_t more(self) except -1:
        cdef Watcher owner
        cdef char* data = NULL
        cdef Py_ssize_t n, before
        self.take_turns_to_read()
        owner = self.owner                      # kept while Python code runs in the stream's layer
        before = self.at_hand(&data)
        if owner is None:
            self.fail_ended()
        while True:
            n = self.at_hand(&data)
            if n > before:                      # put there by the owner of a stream that is carried
                return n - before
            if self.stream == NULL:
                self.fail_ended()
            n = receive_more(self.stream, self.listener.buffers)
            if n >= 0:
                self.received += n
                return n
            self.wait_readable()

    cdef void consume(self, Py_ssize_t n) noexcept:
        if self.stream == NULL:
            return
        consume_inbox(self.stream, self.listener.buffers, n)
        if self.stream.carried:
            owner = <Carried> self.owner
            owner.consumed()

    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -2:
        cdef Watcher owner
        cdef Stream* stream
        cdef Py_ssize_t got = -1
        self.take_turns_to_read()
        owner = self.owner
        stream = self.stream
        if owner is None:
            raise ConnectionLost("the request has ended")
        if stream.inbox.size:
            got = min(n, <Py_ssize_t> (stream.inbox.size - stream.inbox_start))
            memcpy(into, stream.inbox.data + stream.inbox_start, got)
            self.consume(got)
            return got
        if is_receivable(stream):
            got = receive(stream, self.listener.buffers, into, n)
        if got < 0:
            self.wait_readable()
        else:
            self.received += got
        return got

    cdef int expected(self) except -1:
        if self.stream == NULL:
            self.fail_ended()
        if self.stream.inbox.size == 0 and not self.answered:   # with bytes the client goes on by itself
            self.send_all(REPLY_CONTINUE, 25)
        return 0

    cdef int wait_readable(self) except -1:
        """Park the tasklet that reads a body until bytes come; BodyTimeout, ClientGone."""
        cdef Loop loop = get_loop()
        cdef Watcher _owner = self.owner        # keeps the stream
        cdef Stream* stream = self.stream
        cdef int64_t began = loop.clock.now
        cdef int64_t limit = self.listener.limits.ping_ns if self.upgraded else self.listener.limits.body_ns
        if stream == NULL or (stream.fd < 0 and not stream.carried):
            raise ConnectionLost("the connection is closed")
        if someone_waits(self.waiters(loop, READ)):
            raise RuntimeError("another tasklet is already reading this body")
        if self.wait(READ, "request body", limit) == TIMED_OUT:
            raise BodyTimeout(f"no byte of the request body arrived for {limit / 1e9:g} s")
        if self.stream != stream:
            raise ConnectionLost("the request has ended")
        if not self.upgraded:
            self.waited += loop.clock.now - began
            self.check_rate()
        return 0

    cdef int check_rate(self) except -1:
        """BodyTimeout where the client has made the application wait for too long in all, or sends too
        slowly."""
        cdef const limits* by = &self.listener.limits
        cdef int found = body_data_rate(self.waited, self.received, by)
        if found == TOO_LONG:
            raise BodyTimeout(f"the request body took longer than {by.body_total_ns / 1e9:g} s")
        if found == TOO_SLOW:
            raise BodyTimeout(
                f"the request body arrives more slowly than {by.body_rate:g} bytes per second")
        return 0

    # -- bytes that go ---------------------------------------------------------------------------------------

    cdef int fail_ended(self) except -1:
        raise ConnectionLost("the request has ended")

    cdef int set_body(self, bytes body) except -1:
        """The body is sent behind what is pending. Nothing else is, until it is gone."""
        if self.stream == NULL:
            self.fail_ended()
        set_out_body(self.stream, body)
        return 0

    cdef int send_soon(self) except -1:
        cdef Watcher owner = self.owner
        if self.stream == NULL:
            self.fail_ended()
        if self.stream.carried:
            return (<Carried> owner).send_soon()
        return self.listener.flusher.add(owner)

    cdef int send_all(self, const char* data, Py_ssize_t size) except -1:
        cdef Watcher owner
        cdef Stream* stream
        cdef ssize_t n
        cdef Py_ssize_t done = 0
        cdef size_t ahead
        take_turns()
        owner = self.owner
        if self.stream != NULL and self.stream.carried:
            return (<Carried> owner).send_all(self, data, size)
        while owner is not None:
            self.open_stream()
            stream = self.stream
            if stream.out_body != NULL:         # a large body of the response before this one
                n = send_pending(stream, self.listener.buffers)
                if n == STALLED:
                    self.wait_writable()
                elif n != SENT_ALL:
                    stream.gone = True
                continue
            ahead = stream.out.size - stream.out_sent
            if ahead + size - done == 0:
                n = push_ciphertext(stream)
                if n > 0 and unsent(stream) and not stream.gone:
                    continue                    # put there while Python code ran
                if n > 0:
                    break
                if n == 0:
                    self.wait_writable()
                else:
                    stream.gone = True
                continue
            n = transmit(stream, stream.out.data + stream.out_sent, ahead, data + done, size - done)
            if n < 0:
                if errno == EAGAIN and not stream.gone:
                    self.wait_writable()
                elif errno != EINTR:
                    stream.gone = True
                continue
            self.listener.buffers.sent += n
            if self.listener.data_rates.count:
                self.listener.data_rates.sent_more(stream.fd, n)
            if n > <ssize_t> ahead:
                stream.out_sent += ahead
                done += n - ahead
            else:
                stream.out_sent += n
        else:
            raise ConnectionLost("the request has ended")
        drop_unsent(stream, self.listener.buffers)
        stream.stalled = False
        return 0

    cdef int send_whole(self, const char* data, Py_ssize_t size) except -1:
        """As send_all(), but if this is interrupted the loop sends the rest."""
        cdef Py_ssize_t sent
        take_turns()                            # before a part is sent
        sent = self.send_at_once(data, size)
        if sent == size:
            return 0
        self.append(data + sent, size - sent)
        try:
            return self.send_all(NULL, 0)
        except BaseException:
            if not self.is_gone() and get_loop() is self.listener.loop:
                self.send_soon()
            raise

    cdef Py_ssize_t send_at_once(self, const char* data, Py_ssize_t size) except -1:
        """Send what the client takes now, without a copy, if nothing is to be sent before it. Return its
        size; 0 where it has to go another way."""
        cdef Watcher _owner = self.owner        # keeps the stream
        cdef Stream* stream = self.stream
        cdef ssize_t n
        if self.is_gone() or stream.carried or stream.layer != NULL or has_unsent(stream):
            return 0
        n = transmit(stream, data, size, NULL, 0)
        if n <= 0:
            return 0                            # send_all() meets the error again
        self.listener.buffers.sent += n
        if self.listener.data_rates.count:
            self.listener.data_rates.sent_more(stream.fd, n)
        return n

    cdef int send_file(self, int fd, int64_t offset, int64_t count, bint slow) except -1:
        """By sendfile, if `slow` does not say that the file system does not answer at once."""
        cdef Loop loop = get_loop()
        cdef Stream* stream
        cdef bint copied
        cdef int64_t piece
        cdef ssize_t n
        self.send_all(NULL, 0)
        while count > 0:
            stream = self.open_stream()
            copied = slow or stream.layer != NULL or stream.carried
            n = -1
            if not copied:
                piece = min(count, <int64_t> (1 << 20))
                if not lies_in_memory(fd, offset, piece):
                    in_pool(fd, bring_in, (fd, offset, piece), {})
                    stream = self.open_stream()
                n = sendfile(stream.fd, fd, <off_t*> &offset, <size_t> piece)
            if n > 0:
                self.listener.buffers.sent += n
                self.listener.data_rates.sent_more(stream.fd, n)
                count -= n
                if count and is_poll_due(&loop.clock):
                    loop.yield_()
            elif n == 0:
                raise RuntimeError("the file became shorter while it was sent")
            elif not copied and errno == EAGAIN:
                self.wait_writable()
            elif copied or errno == EINVAL or errno == ENOSYS:
                data = reading(fd, <Py_ssize_t> min(count, <int64_t> 65536), offset)
                if not data:
                    raise RuntimeError("the file became shorter while it was sent")
                self.send_all(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
                offset += len(data)
                count -= len(data)
            elif errno != EINTR:
                stream.gone = True
        return 0

    cdef int wait_writable(self) except -1:
        """Park the tasklet that sends until the client takes more. The stream is gone if that takes longer
        than Limits.write_seconds, or the client is slower than Limits.write_rate."""
        cdef Listener listener = self.listener
        cdef Loop loop = get_loop()
        cdef Watcher owner = self.owner         # keeps the stream
        cdef Stream* stream = self.stream
        cdef int outcome
        if stream == NULL:                      # ended while Python code ran in the stream's layer
            self.fail_ended()
        if someone_waits(self.waiters(loop, WRITE)):
            raise RuntimeError("another tasklet is already sending on this connection")
        if stream.carried:
            return (<Carried> owner).wait_writable(self)
        listener.data_rates.stalled(stream.fd, 0)
        while True:         # the client is checked each time
            outcome = self.wait(WRITE, "client to read", listener.deadlines.lists[WRITE_DEADLINE].length)
            if self.stream != stream or stream.fd < 0:
                return 0
            if outcome != TIMED_OUT or not listener.data_rates.may_wait(stream.fd):
                break
        listener.data_rates.rested(stream.fd)
        if outcome == TIMED_OUT or listener.data_rates.too_slow(stream.fd):
            stream.gone = True
        return 0

    cdef int wait(self, int bit, const char* why, int64_t ns) except -1:
        """Park until the stream is ready or closed or the time has passed."""
        cdef Watcher owner = self.owner         # kept while this waits
        cdef Loop loop = get_loop()
        cdef int outcome
        if self.stream.carried:
            if bit & READ:
                (<Carried> owner).consumed()
            return wait_in(
                &(<Carried> owner).readers if bit & READ else &(<Carried> owner).writers, why, owner,
                loop.clock.now + ns)
        if loop is self.listener.loop:
            return wait_fd(loop, self.stream.fd, bit, loop.clock.now + ns, why, owner)
        outcome = wait_foreign_fd(loop, self.stream.fd, bit, loop.clock.now + ns)
        if self.stream != NULL and bit & READ:
            self.stream.readable = True         # this thread's loop was told of it, not the connection's
        return outcome

    cdef WaitQueue* waiters(self, Loop loop, int bit) except NULL:
        """Return the tasklets of the loop that wait for bytes, or for room."""
        cdef FdEntry* entry
        if not self.stream.carried:
            entry = loop.fds.entry(self.stream.fd)
            return &entry.readers if bit & READ else &entry.writers
        if loop is not self.listener.loop:
            raise RuntimeError("an HTTP/2 request can wait for its client only in the thread of its server")
        return &(<Carried> self.owner).readers if bit & READ else &(<Carried> self.owner).writers

    cdef int abort(self) except -1:
        """Whole responses to earlier requests go out before."""
        cdef Watcher _owner = self.owner        # keeps the stream
        cdef Stream* stream = self.stream
        cdef Loop loop = self.listener.loop
        if stream == NULL:
            return 0
        if (not stream.carried and push_ciphertext(stream) > 0 and stream.out.size > stream.out_sent
                and not stream.gone and not someone_waits(&loop.fds.entries[stream.fd].writers)):
            transmit(stream, stream.out.data + stream.out_sent, stream.out.size - stream.out_sent, NULL, 0)
        stream.gone = stream.torn = True
        return 0


cdef class Body:
    """Reads one body after the other: begin(), then window() and advance(), or read_into(), until 0;
    end()."""

    cdef void begin(self, Peer source, int64_t length, bint chunked, bint expects_continue) noexcept:
        """`length`: Content-Length, or -1."""
        self.source = source
        self.expects_continue = expects_continue
        self.broken = False
        body_begin(&self.framing, chunked, length)

    # -- reading ---------------------------------------------------------------------------------------------

    cdef Py_ssize_t window(self, char** data) except -1:
        """Return bytes of the body that lie ready at *data, at least one; 0 at the end of the body."""
        cdef Peer source
        cdef Py_ssize_t n
        if self.framing.ended:
            return 0
        source = self.readable_source()
        if self.framing.left <= 0 and not self.next_chunk():
            return 0
        n = source.available(data)
        if n == 0:
            self.fail_gone()
        return n if n < self.framing.left else <Py_ssize_t> self.framing.left

    cdef void advance(self, Py_ssize_t n) noexcept:
        """The first n bytes of the window are used up."""
        cdef Peer source = self.source
        if source is not None:
            source.consume(n)
        body_take(&self.framing, n)

    cdef Py_ssize_t read_into(self, char* into, Py_ssize_t n) except -1:
        """Move up to n bytes of the body, at least one, to the caller's memory; 0 at the end of the body."""
        cdef char* data
        cdef Peer source
        cdef Py_ssize_t got
        while n >= DIRECT and self.framing.left >= DIRECT:
            source = self.readable_source()
            got = source.direct(into, n if n < self.framing.left else <Py_ssize_t> self.framing.left)
            if got == 0:
                self.fail_gone()
            if got > 0:
                body_take(&self.framing, got)
                return got
        got = min(n, self.window(&data))
        if got:
            memcpy(into, data, got)
            self.advance(got)
        return got

    cdef bint at_hand(self) noexcept:
        """Return whether window() gives bytes or the end of the body, without waiting and without an
        error."""
        cdef framing ahead = self.framing
        cdef char* data = NULL
        cdef Py_ssize_t n
        cdef long used
        if ahead.ended or self.broken or self.expects_continue or self.source is None:
            return False
        n = self.source.at_hand(&data)
        while ahead.left <= 0 and not ahead.ended:
            used = scan_body_line(&ahead, &self.source.listener.limits, data, n)
            if used <= 0:
                return False
            data += used
            n -= used
        return n > 0 or ahead.ended

    cdef Py_ssize_t gather(self, char* into, Py_ssize_t n) except -1:
        """Move up to n bytes that are at hand, of several chunks if need be."""
        cdef char* data = NULL
        cdef Py_ssize_t part, got = 0
        while got < n and self.at_hand():
            part = min(n - got, self.window(&data))
            if part:
                memcpy(into + got, data, part)
                self.advance(part)
                got += part
        return got

    cdef bint drainable(self, Py_ssize_t most) noexcept:
        """Return whether the rest of the body may be short enough to be read away."""
        return not self.broken and not self.expects_continue and self.framing.left <= most

    cdef bint is_read(self) noexcept:
        """Return whether another tasklet waits for more of it, so that it cannot be read away."""
        return not self.framing.ended and self.source is not None and self.source.is_read()

    cdef bint drain(self, Py_ssize_t most) except -1:
        """Read the rest of the body away. False if it has more than `most` bytes."""
        cdef char* data
        cdef Py_ssize_t n, drained = 0
        while not self.framing.ended:
            n = self.window(&data)
            if n == 0:
                break
            self.advance(n)
            drained += n
            if drained > most:
                return False
        return True

    # -- framing ---------------------------------------------------------------------------------------------

    cdef Peer readable_source(self):
        """Return the source, of which more is to be read; ClientGone if that is not possible any more."""
        cdef Peer source = self.source        # the request may end while another tasklet waits here
        if source is None or self.broken:
            raise ConnectionLost("the body can no longer be read")
        if self.expects_continue:
            self.expects_continue = False
            source.expected()
        return source

    cdef bint next_chunk(self) except -1:
        """Read up to the next chunk's data; False after the last chunk and its trailers."""
        cdef Peer source = self.source
        cdef char* data
        cdef Py_ssize_t n
        cdef long used
        while not self.framing.ended:
            n = source.available(&data)
            used = scan_body_line(&self.framing, &source.listener.limits, data, n)
            while used == 0:
                self.wait_for_more()
                n = source.available(&data)
                used = scan_body_line(&self.framing, &source.listener.limits, data, n)
            if used < 0:
                self.fail_framing(&source.listener.limits, -used)
            source.consume(used)
            if self.framing.left > 0:
                return True
        return False

    cdef int fail_framing(self, const limits* by, int reason) except -1:
        cdef object error
        self.broken = True
        if reason == R_TRAILERS_TOO_LARGE:
            error = TrailersTooLarge(f"the trailers are larger than {by.trailer_bytes} bytes")
        elif reason == R_BODY_TOO_LARGE:
            error = BodyTooLarge(f"the body is larger than {by.body_bytes} bytes")
        elif reason == R_CHUNK_LINE_TOO_LONG:
            error = BodyTooLarge(f"the line of a chunk is longer than {by.chunk_line} bytes")
        else:
            error = BadRequest(REFUSALS[reason].words)
        error.refusal = reason
        raise error

    cdef int wait_for_more(self) except -1:
        cdef Peer source = self.source
        return 0 if source is not None and source.more() else self.fail_gone()

    cdef int fail_gone(self) except -1:
        self.broken = True
        raise ConnectionLost("the client closed the connection before the end of the body")
