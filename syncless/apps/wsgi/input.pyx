"""wsgi.input: a request body as a stream.

It is a binary file for all that read one, such as io.TextIOWrapper, but without a position. The tasklet
parks while the client has not sent enough. After the end every read returns b"" (wsgi.input_terminated). An
error in the body is raised as a ClientError.
"""

import io

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memchr, memcpy

from syncless.http.peer cimport DIRECT, Body

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize" (const char* data, Py_ssize_t n) except NULL
    int _PyBytes_Resize(PyObject** whole, Py_ssize_t n) except -1


cdef enum:
    FIRST = 65536       # bytes reserved at most before any has come

cdef int64_t UNKNOWN = <int64_t> ((<size_t> -1) >> 1)


@cython.final
@cython.no_gc
cdef class _Growing:
    """A bytes object that grows by half whenever it is full: in place, and by no more than has come."""

    def __dealloc__(self):
        Py_XDECREF(self.whole)

    cdef char* space(self, int64_t most) except NULL:
        """Where the next byte goes, with room for it; `most`: bytes that there will be in the end, if that
        is known."""
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
        """Return the bytes; nothing can be put into it afterwards."""
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
    """The stream of PEP 3333, with read(), readline(), readlines() and iteration; an io.BufferedIOBase."""

    def __init__(self, Body body not None):
        self.body = body

    cdef bytes take(self, int64_t size):
        """That many bytes, fewer at the end of the body; all that are left if it is negative."""
        cdef Body body = self.body
        cdef _Growing taken
        cdef char* data
        cdef Py_ssize_t n
        cdef bytes whole
        if not body.framing.chunked and (size < 0 or size > body.framing.left):
            size = body.framing.left
        if size == 0:
            return b""
        if 0 < size < DIRECT:
            n = body.window(&data)
            if n == 0:
                return b""
            if n >= size:                       # as usual: all of it lies ready
                whole = PyBytes_FromStringAndSize(data, <Py_ssize_t> size)
                body.advance(<Py_ssize_t> size)
                return whole
        if size < 0:
            size = UNKNOWN
        taken = _Growing()
        while taken.size < size:
            data = taken.space(size)
            n = body.read_into(data, taken.room - taken.size)
            if n == 0:
                break
            taken.size += n
        return taken.result()

    cdef bytes take_line(self, int64_t limit):
        """Up to and including the next newline, at most `limit` bytes unless it is negative."""
        cdef Body body = self.body
        cdef _Growing line = None
        cdef char* data
        cdef char* newline
        cdef Py_ssize_t n
        cdef bint ended = limit == 0
        cdef bytes whole
        while not ended:
            n = body.window(&data)
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
                body.advance(n)
                return whole
            if line is None:
                line = _Growing()
            line.add(data, n)
            body.advance(n)
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

    def read1(self, size=-1, /) -> bytes:
        """read1([size]): bytes that have come, at most `size`; waits for the first, and is empty at the end
        only."""
        cdef int64_t most = -1 if size is None else size
        cdef char* data
        cdef Py_ssize_t n
        cdef bytes piece
        if most == 0:
            return b""
        n = self.body.window(&data)
        if 0 < most < n:
            n = <Py_ssize_t> most
        piece = PyBytes_FromStringAndSize(data, n) if n else b""
        self.body.advance(n)
        return piece

    def readinto1(self, buffer, /) -> int:
        """readinto1(buffer): as read1(), into the buffer; returns the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read1(len(view))
        view[:len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def isatty(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return False

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: the body belongs to the server."""

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        """Do nothing, as close()."""

    def __iter__(self):
        return self

    def __next__(self) -> bytes:
        line = self.take_line(-1)
        if not line:
            raise StopIteration
        return line


io.BufferedIOBase.register(Input)
