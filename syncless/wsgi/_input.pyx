"""wsgi.input: the body of one request, read on demand, whatever its framing (RFC 9112, 6 and 7).

Takes a ByteSource, the connection as this file sees it. The tasklet parks while the client has not sent enough. After the end every
read returns b"" (wsgi.input_terminated). What is wrong with the body is raised as a ClientError.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcpy

from syncless._core.loop cimport Watcher
from syncless.wsgi._head cimport scan_chunk_line, scan_trailers

from syncless.wsgi.errors import BadRequest, BodyTooLarge, ClientGone


cdef class ByteSource(Watcher):
    """Where a body's bytes come from.

    available()  how many bytes lie ready at *data, waiting for the first; 0 when the client has closed
    more()       waits for bytes behind those; how many came, 0 when the client has closed
    consume(n)   the first n are used up
    direct()     waits for up to n bytes and puts them straight into the caller's memory; only while none lie ready
    expected()   tells the client to go on (100)
    """

    cdef Py_ssize_t available(self, char** data) except -1:
        raise NotImplementedError

    cdef Py_ssize_t more(self) except -1:
        raise NotImplementedError

    cdef void consume(self, Py_ssize_t n) noexcept:
        pass

    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -1:
        raise NotImplementedError

    cdef int expected(self) except -1:
        return 0


cdef enum:
    DIRECT = 16384      # bytes wanted from which on they bypass the connection's buffer


cdef class Input:
    """The stream of PEP 3333, with read(), readline(), readlines() and iteration."""

    cdef void begin(self, ByteSource source, int64_t length, bint chunked, bint expect) noexcept:
        self.source = source
        self.remaining = 0 if chunked or length < 0 else length
        self.total = 0
        self.chunked = chunked
        self.in_chunk = False
        self.expect = expect
        self.finished = not chunked and length <= 0
        self.broken = False

    cdef Py_ssize_t window(self, char** data) except -1:
        """Bytes of the body that lie ready at *data, at least one; 0 at the end of the body."""
        cdef ByteSource source = self.source        # the request may end while another tasklet waits here
        cdef Py_ssize_t n
        if self.finished:
            return 0
        if self.source is None or self.broken:
            raise ClientGone("the body is no longer there to be read")
        if self.expect:
            self.expect = False
            source.expected()
        if self.chunked and self.remaining == 0 and not self.next_chunk():
            return 0
        n = source.available(data)
        if n == 0:
            self.broken = True
            raise ClientGone("the client closed the connection before the end of the body")
        return n if n < self.remaining else <Py_ssize_t> self.remaining

    cdef int advance(self, Py_ssize_t n) except -1:
        self.source.consume(n)
        self.remaining -= n
        if self.remaining == 0 and not self.chunked:
            self.finished = True
        return 0

    cdef bint next_chunk(self) except -1:
        """Reads up to the next chunk's data; False after the last chunk and its trailers."""
        cdef ByteSource source = self.source
        cdef char* data
        cdef Py_ssize_t n = source.available(&data)
        cdef int64_t size = 0
        cdef long used
        while self.in_chunk:                    # the CRLF after the data of the last one
            if n >= 2:
                if data[0] != c"\r" or data[1] != c"\n":
                    self.broken = True
                    raise BadRequest("a chunk is not as long as it says")
                source.consume(2)
                self.in_chunk = False
            elif n == 1 and data[0] != c"\r":
                self.broken = True
                raise BadRequest("a chunk is not as long as it says")
            else:
                self.wait_for_more()
            n = source.available(&data)
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
            raise BadRequest("malformed chunk size") if used == -400 else BodyTooLarge("the line of a chunk is too long")
        source.consume(used)
        self.total += size
        if self.total > self.max_body:
            self.broken = True
            raise BodyTooLarge(f"the body is larger than {self.max_body} bytes")
        self.remaining = size
        self.in_chunk = True
        if size > 0:
            return True
        n = source.available(&data)
        while True:                             # trailers are read and dropped (RFC 9112, 7.1.2)
            used = scan_trailers(data, n, self.trailers)
            if used != 0:
                break
            self.wait_for_more()
            n = source.available(&data)
        if used < 0:
            self.broken = True
            raise BadRequest("malformed or too long trailers")
        source.consume(used)
        self.finished = True
        return False

    cdef int wait_for_more(self) except -1:
        if self.source.more() == 0:
            self.broken = True
            raise ClientGone("the client closed the connection before the end of the body")
        return 0

    cdef bytes take(self, int64_t size):
        cdef char* data
        cdef Py_ssize_t n, want, done = 0
        cdef bytes result
        cdef list parts
        if size >= 0 and not self.chunked:
            want = <Py_ssize_t> (size if size < self.remaining else self.remaining)
            result = PyBytes_FromStringAndSize(NULL, want)
            while done < want:
                n = self.window(&data) if want - done < DIRECT else self.direct_window(PyBytes_AS_STRING(result) + done, want - done, &data)
                if n < 0:
                    done -= n                   # it was put in place already
                    continue
                if n > want - done:
                    n = want - done
                memcpy(PyBytes_AS_STRING(result) + done, data, n)
                self.advance(n)
                done += n
            return result
        parts = []
        while size < 0 or done < size:
            n = self.window(&data)
            if n == 0:
                break
            if size >= 0 and n > size - done:
                n = <Py_ssize_t> (size - done)
            parts.append(PyBytes_FromStringAndSize(data, n))
            self.advance(n)
            done += n
        return b"".join(parts)

    cdef Py_ssize_t direct_window(self, char* into, Py_ssize_t n, char** data) except 0:
        """As window(), but where nothing lies ready the bytes go straight `into` the result: then minus their number."""
        cdef ByteSource source = self.source
        cdef Py_ssize_t got
        if self.source is None or self.broken:
            raise ClientGone("the body is no longer there to be read")
        if self.expect:
            self.expect = False
            source.expected()
        got = source.direct(into, n)
        if got < 0:
            return self.window(data)
        if got == 0:
            self.broken = True
            raise ClientGone("the client closed the connection before the end of the body")
        self.remaining -= got
        if self.remaining == 0:
            self.finished = True
        return -got

    cdef bytes take_line(self, int64_t limit):
        cdef char* data
        cdef char* newline
        cdef Py_ssize_t n
        cdef bytes line = b""
        while limit < 0 or len(line) < limit:
            n = self.window(&data)
            if n == 0:
                break
            if limit >= 0 and n > limit - len(line):
                n = <Py_ssize_t> (limit - len(line))
            newline = <char*> memchr(data, c"\n", n)
            if newline != NULL:
                n = newline - data + 1
            line += PyBytes_FromStringAndSize(data, n)
            self.advance(n)
            if newline != NULL:
                break
        return line

    def read(self, size=-1, /) -> bytes:
        """read([size]): that many bytes, fewer only at the end of the body; all of it without a size or with a negative one."""
        cdef int64_t n = -1 if size is None else size
        if n < 0 and not self.chunked:
            n = self.remaining
        return self.take(n)

    def readline(self, size=-1, /) -> bytes:
        """readline([size]): up to and including the next newline, at most `size` bytes; b"" at the end."""
        return self.take_line(-1 if size is None else size)

    def readlines(self, hint=-1, /) -> list:
        """readlines([hint]): the lines of the rest of the body; stops after `hint` bytes if given."""
        cdef int64_t enough = -1 if hint is None or hint <= 0 else hint
        cdef int64_t got = 0
        lines = []
        while enough < 0 or got < enough:
            line = self.take_line(-1)
            if not line:
                break
            lines.append(line)
            got += len(line)
        return lines

    def readinto(self, buffer, /) -> int:
        """readinto(buffer): fills the buffer, less only at the end of the body; returns the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.take(len(view))
        view[:len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Does nothing: the body belongs to the server."""

    def __iter__(self):
        return self

    def __next__(self) -> bytes:
        line = self.take_line(-1)
        if not line:
            raise StopIteration
        return line
