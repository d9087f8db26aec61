"""wsgi.input: the body of one request, read on demand, whatever its framing (RFC 9112, 6 and 7).

Takes a ByteSource, the connection as this file sees it. The tasklet parks while the client has not sent
enough. After the end every read returns b"" (wsgi.input_terminated). What is wrong with the body is raised as
a ClientError.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcpy

from syncless._core.loop cimport Watcher
from syncless.http.scanner cimport scan_chunk_line, scan_trailers

from syncless.http.errors import BadRequest, BodyTooLarge, ClientGone

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize" (const char* data, Py_ssize_t n) except NULL
    int _PyBytes_Resize(PyObject** whole, Py_ssize_t n) except -1


cdef class ByteSource(Watcher):
    """Where a body's bytes come from.

    available()  how many bytes lie ready at *data, waiting for the first; 0 when the client has closed
    more()       waits for bytes behind those; how many came, 0 when the client has closed
    consume(n)   the first n are used up
    direct()     puts up to n bytes straight into the caller's memory; 0 when the client has closed; -1 after it had to wait: look again,
                 for another tasklet may have read meanwhile
    expected()   tells the client to go on (100)
    """

    cdef Py_ssize_t available(self, char** data) except -1:
        raise NotImplementedError

    cdef Py_ssize_t more(self) except -1:
        raise NotImplementedError

    cdef void consume(self, Py_ssize_t n) noexcept:
        pass

    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -2:
        raise NotImplementedError

    cdef int expected(self) except -1:
        return 0


cdef enum:
    DIRECT = 16384      # bytes wanted from which on they bypass the connection's buffer
    FIRST = 65536       # bytes reserved at most before any has come

cdef int64_t UNKNOWN = <int64_t> ((<size_t> -1) >> 1)


@cython.final
@cython.no_gc
cdef class _Growing:
    """A bytes object that grows by half whenever it is full: in place, and by no more than has come."""

    def __dealloc__(self):
        Py_XDECREF(self.whole)

    cdef char* space(self, int64_t most) except NULL:
        """Where the next byte goes, with room for it; `most`: bytes that there will be in the end, if that is
        known."""
        cdef int64_t room
        if self.size == self.room:
            room = self.room + self.room // 2 if self.room else <int64_t> FIRST
            if room > most:
                room = most
            if self.whole == NULL:
                self.whole = new_bytes(NULL, <Py_ssize_t> room)
            else:
                _PyBytes_Resize(&self.whole, <Py_ssize_t> room)
            self.room = <Py_ssize_t> room
        return PyBytes_AS_STRING(<object> self.whole) + self.size

    cdef int add(self, const char* data, Py_ssize_t n) except -1:
        cdef char* into
        cdef Py_ssize_t piece
        while n:
            into = self.space(UNKNOWN)
            piece = min(n, self.room - self.size)
            memcpy(into, data, piece)
            self.size += piece
            data += piece
            n -= piece
        return 0

    cdef bytes result(self):
        """The bytes; nothing can be put into it afterwards."""
        cdef bytes whole
        if self.whole == NULL:
            return b""
        if self.size < self.room:
            _PyBytes_Resize(&self.whole, self.size)
        whole = <bytes> self.whole
        Py_XDECREF(self.whole)
        self.whole = NULL
        return whole


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

    cdef ByteSource begun(self):
        """The source, of which more is to be read; ClientGone if that is not possible any more."""
        cdef ByteSource source = self.source        # the request may end while another tasklet waits here
        if source is None or self.broken:
            raise ClientGone("the body is no longer there to be read")
        if self.expect:
            self.expect = False
            source.expected()
        return source

    cdef Py_ssize_t window(self, char** data) except -1:
        """Bytes of the body that lie ready at *data, at least one; 0 at the end of the body."""
        cdef ByteSource source
        cdef Py_ssize_t n
        if self.finished:
            return 0
        source = self.begun()
        if self.chunked and self.remaining == 0 and not self.next_chunk():
            return 0
        n = source.available(data)
        if n == 0:
            self.gone()
        return n if n < self.remaining else <Py_ssize_t> self.remaining

    cdef Py_ssize_t fill(self, char* into, Py_ssize_t n) except -1:
        """Moves up to n bytes of the body, at least one, to where the caller wants them; 0 at the end of the
        body."""
        cdef char* data
        cdef ByteSource source
        cdef Py_ssize_t got
        while n >= DIRECT and self.remaining >= DIRECT:
            source = self.begun()
            got = source.direct(into, n if n < self.remaining else <Py_ssize_t> self.remaining)
            if got == 0:
                self.gone()
            if got > 0:
                self.spent(got)
                return got
        got = min(n, self.window(&data))
        if got:
            memcpy(into, data, got)
            self.advance(got)
        return got

    cdef int advance(self, Py_ssize_t n) except -1:
        self.source.consume(n)
        return self.spent(n)

    cdef int spent(self, Py_ssize_t n) noexcept:
        self.remaining -= n
        if self.remaining == 0 and not self.chunked:
            self.finished = True
        return 0

    cdef int gone(self) except -1:
        self.broken = True
        raise ClientGone("the client closed the connection before the end of the body")

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
        return 0 if self.source.more() else self.gone()

    cdef bytes take(self, int64_t size):
        """That many bytes, fewer at the end of the body; all that are left if it is negative."""
        cdef _Growing taken
        cdef char* data
        cdef Py_ssize_t n
        cdef bytes whole
        if not self.chunked and (size < 0 or size > self.remaining):
            size = self.remaining
        if size == 0:
            return b""
        if 0 < size < DIRECT:
            n = self.window(&data)
            if n == 0:
                return b""
            if n >= size:                       # as usual: all of it lies ready
                whole = PyBytes_FromStringAndSize(data, <Py_ssize_t> size)
                self.advance(<Py_ssize_t> size)
                return whole
        if size < 0:
            size = UNKNOWN
        taken = _Growing()
        while taken.size < size:
            data = taken.space(size)
            n = self.fill(data, taken.room - taken.size)
            if n == 0:
                break
            taken.size += n
        return taken.result()

    cdef bytes take_line(self, int64_t limit):
        """Up to and including the next newline, at most `limit` bytes unless it is negative."""
        cdef _Growing line = None
        cdef char* data
        cdef char* newline
        cdef Py_ssize_t n
        cdef bint ended = limit == 0
        cdef bytes whole
        while not ended:
            n = self.window(&data)
            if n == 0:
                break
            if limit >= 0 and n >= limit - (0 if line is None else line.size):
                n = <Py_ssize_t> (limit - (0 if line is None else line.size))
                ended = True
            newline = <char*> memchr(data, c"\n", n)
            if newline != NULL:
                n = newline - data + 1
                ended = True
            if ended and line is None:          # as usual: all of it lies ready
                whole = PyBytes_FromStringAndSize(data, n)
                self.advance(n)
                return whole
            if line is None:
                line = _Growing()
            line.add(data, n)
            self.advance(n)
        return b"" if line is None else line.result()

    def read(self, size=-1, /) -> bytes:
        """read([size]): that many bytes, fewer only at the end of the body; all of it without a size or with
        a negative one."""
        return self.take(-1 if size is None else size)

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
        """readinto(buffer): fills the buffer, less only at the end of the body; returns the number of
        bytes."""
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
