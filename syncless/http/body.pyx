"""Body: the body of one request, read on demand, whatever its framing (RFC 9112, 6 and 7).

Takes a Peer, the client as a request sees it, and the framing that the head announces. Gives the
bytes of the body and keeps its limits. The tasklet parks while the client has not sent enough. An error in
the body is raised as a ClientError. Knows nothing of the application that reads.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from syncless.http.peer cimport Peer
from syncless.http.wire cimport scan_chunk_line, scan_trailers

from syncless.http.errors import BadRequest, BodyTooLarge, ClientGone, TrailersTooLarge


cdef class Body:
    """Reads one body after the other: begin(), then window() and advance(), or read_into(), until 0;
    end()."""

    cdef void begin(self, Peer source, int64_t length, bint chunked, bint expects_continue) noexcept:
        """`length`: Content-Length, or -1."""
        self.source = source
        self.remaining = 0 if chunked or length < 0 else length
        self.total = 0
        self.chunked = chunked
        self.in_chunk = False
        self.expects_continue = expects_continue
        self.finished = not chunked and length <= 0
        self.broken = False

    # -- reading ---------------------------------------------------------------------------------------------

    cdef Py_ssize_t window(self, char** data) except -1:
        """Bytes of the body that lie ready at *data, at least one; 0 at the end of the body."""
        cdef Peer source
        cdef Py_ssize_t n
        if self.finished:
            return 0
        source = self.readable_source()
        if self.chunked and self.remaining == 0 and not self.next_chunk():
            return 0
        n = source.available(data)
        if n == 0:
            self.fail_gone()
        return n if n < self.remaining else <Py_ssize_t> self.remaining

    cdef void advance(self, Py_ssize_t n) noexcept:
        """The first n bytes of the window are used up."""
        self.source.consume(n)
        self.count(n)

    cdef Py_ssize_t read_into(self, char* into, Py_ssize_t n) except -1:
        """Moves up to n bytes of the body, at least one, to the caller's memory; 0 at the end of the body."""
        cdef char* data
        cdef Peer source
        cdef Py_ssize_t got
        while n >= DIRECT and self.remaining >= DIRECT:
            source = self.readable_source()
            got = source.direct(into, n if n < self.remaining else <Py_ssize_t> self.remaining)
            if got == 0:
                self.fail_gone()
            if got > 0:
                self.count(got)
                return got
        got = min(n, self.window(&data))
        if got:
            memcpy(into, data, got)
            self.advance(got)
        return got

    cdef bint at_hand(self) noexcept:
        """Whether window() gives bytes or the end of the body, without waiting and without an error."""
        cdef char* data = NULL
        cdef Py_ssize_t n
        cdef int64_t size = 0
        cdef long used
        if self.finished or self.broken or self.expects_continue or self.source is None:
            return False
        n = self.source.at_hand(&data)
        if self.remaining or not self.chunked:
            return n > 0
        if self.in_chunk:
            if n < 2 or data[0] != c"\r" or data[1] != c"\n":
                return False
            data += 2
            n -= 2
        used = scan_chunk_line(data, n, self.chunk_line, &size)
        if used <= 0:
            return False
        if size:
            return n > used and size <= self.max_bytes - self.total
        return scan_trailers(data + used, n - used, self.trailers) > 0

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
        return not self.broken and not self.expects_continue and self.remaining <= most

    cdef bint drain(self, Py_ssize_t most) except -1:
        """Reads the rest of the body away. False if it has more than `most` bytes."""
        cdef char* data
        cdef Py_ssize_t n, drained = 0
        while not self.finished:
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
            raise ClientGone("the body can no longer be read")
        if self.expects_continue:
            self.expects_continue = False
            source.expected()
        return source

    cdef void count(self, Py_ssize_t n) noexcept:
        self.remaining -= n
        if self.remaining == 0 and not self.chunked:
            self.finished = True

    cdef bint next_chunk(self) except -1:
        """Reads up to the next chunk's data; False after the last chunk and its trailers."""
        cdef int64_t size
        if self.in_chunk:
            self.end_chunk()
        size = self.read_chunk_line()
        self.total += size
        if self.total > self.max_bytes:
            self.broken = True
            raise BodyTooLarge(f"the body is larger than {self.max_bytes} bytes")
        self.remaining = size
        self.in_chunk = True
        if size > 0:
            return True
        self.read_trailers()
        self.finished = True
        return False

    cdef int end_chunk(self) except -1:
        """The CRLF after the data of a chunk."""
        cdef Peer source = self.source
        cdef char* data
        cdef Py_ssize_t n = source.available(&data)
        while n < 2 and (n == 0 or data[0] == c"\r"):
            self.wait_for_more()
            n = source.available(&data)
        if data[0] != c"\r" or data[1] != c"\n":
            self.broken = True
            raise BadRequest("a chunk is not as long as it says")
        source.consume(2)
        self.in_chunk = False
        return 0

    cdef int64_t read_chunk_line(self) except -1:
        """The size of the next chunk."""
        cdef Peer source = self.source
        cdef char* data
        cdef Py_ssize_t n = source.available(&data)
        cdef int64_t size = 0
        cdef long used
        while True:
            used = scan_chunk_line(data, n, self.chunk_line, &size)
            if used != 0:
                break
            if n > self.chunk_line:
                used = -413
                break
            self.wait_for_more()
            n = source.available(&data)
        if used < 0:
            self.broken = True
            if used == -400:
                raise BadRequest("malformed chunk size")
            raise BodyTooLarge("the line of a chunk is too long")
        source.consume(used)
        return size

    cdef int read_trailers(self) except -1:
        """Trailers are read and dropped (RFC 9112, 7.1.2)."""
        cdef Peer source = self.source
        cdef char* data
        cdef Py_ssize_t n = source.available(&data)
        cdef long used
        while True:
            used = scan_trailers(data, n, self.trailers)
            if used != 0:
                break
            self.wait_for_more()
            n = source.available(&data)
        if used < 0:
            self.broken = True
            if used == -400:
                raise BadRequest("malformed trailers")
            raise TrailersTooLarge(f"the trailers are larger than {self.trailers} bytes")
        source.consume(used)
        return 0

    cdef int wait_for_more(self) except -1:
        return 0 if self.source.more() else self.fail_gone()

    cdef int fail_gone(self) except -1:
        self.broken = True
        raise ClientGone("the client closed the connection before the end of the body")
