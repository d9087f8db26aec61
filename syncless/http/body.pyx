"""Body: the body of one request, read on demand, whatever its framing (wire/body.h). Trailers are read and
dropped (RFC 9112, 7.1.2).

Takes a Peer, the client as a request sees it, and the framing that the head announces. Gives the
bytes of the body and keeps its limits. The tasklet parks while the client has not sent enough. An error in
the body is raised as a ClientError. Knows nothing of the application that reads.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from syncless.http.peer cimport Peer
from syncless.http.wire cimport (
    BEHIND_DATA, IN_TRAILERS, body_begin, body_take, framing, limits, scan_body_line,
)

from syncless.http.errors import BadRequest, BodyTooLarge, ConnectionLost, TrailersTooLarge


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
        """Bytes of the body that lie ready at *data, at least one; 0 at the end of the body."""
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
        self.source.consume(n)
        body_take(&self.framing, n)

    cdef Py_ssize_t read_into(self, char* into, Py_ssize_t n) except -1:
        """Moves up to n bytes of the body, at least one, to the caller's memory; 0 at the end of the body."""
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
        """Whether window() gives bytes or the end of the body, without waiting and without an error."""
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
        """Moves up to n bytes that are at hand, of several chunks if need be."""
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
        """Whether the rest of the body may be short enough to be read away."""
        return not self.broken and not self.expects_continue and self.framing.left <= most

    cdef bint drain(self, Py_ssize_t most) except -1:
        """Reads the rest of the body away. False if it has more than `most` bytes."""
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
        """The source, of which more is to be read; ClientGone if that is not possible any more."""
        cdef Peer source = self.source        # the request may end while another tasklet waits here
        if source is None or self.broken:
            raise ConnectionLost("the body can no longer be read")
        if self.expects_continue:
            self.expects_continue = False
            source.expected()
        return source

    cdef bint next_chunk(self) except -1:
        """Reads up to the next chunk's data; False after the last chunk and its trailers."""
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

    cdef int fail_framing(self, const limits* by, int status) except -1:
        self.broken = True
        if status == 431:
            raise TrailersTooLarge(f"the trailers are larger than {by.trailer_bytes} bytes")
        if status == 413 and self.framing.left > 0:
            raise BodyTooLarge(f"the body is larger than {by.body_bytes} bytes")
        if status == 413:
            raise BodyTooLarge(f"the line of a chunk is longer than {by.chunk_line} bytes")
        raise BadRequest(
            "a chunk is not as long as it says" if self.framing.left == BEHIND_DATA
            else "malformed trailers" if self.framing.left == IN_TRAILERS else "malformed chunk size")

    cdef int wait_for_more(self) except -1:
        return 0 if self.source.more() else self.fail_gone()

    cdef int fail_gone(self) except -1:
        self.broken = True
        raise ConnectionLost("the client closed the connection before the end of the body")
