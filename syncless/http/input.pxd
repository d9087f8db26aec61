from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.loop cimport Watcher


cdef class ByteSource(Watcher):
    cdef Py_ssize_t available(self, char** data) except -1
    cdef Py_ssize_t more(self) except -1
    cdef void consume(self, Py_ssize_t n) noexcept
    cdef Py_ssize_t direct(self, char* into, Py_ssize_t n) except -2
    cdef int expected(self) except -1


cdef class _Growing:                 # a bytes object that grows with what is put into it
    cdef PyObject* whole            # owned; NULL while it has no room
    cdef Py_ssize_t size, room      # bytes used and there

    cdef char* space(self, int64_t most) except NULL
    cdef int add(self, const char* data, Py_ssize_t n) except -1
    cdef bytes result(self)


cdef class Input:
    cdef ByteSource source
    cdef int64_t remaining          # bytes left of the body, or of the present chunk
    cdef int64_t total              # bytes of a chunked body so far
    cdef int64_t max_body
    cdef int chunk_line, trailers   # limits, bytes
    cdef bint chunked
    cdef bint in_chunk              # its end (CRLF) has not been read
    cdef bint expect                # the client waits for 100 (Continue)
    cdef bint finished              # nothing of the body is left on the connection
    cdef bint broken                # its framing failed: the connection is of no more use
    cdef void begin(self, ByteSource source, int64_t length, bint chunked, bint expect) noexcept
    cdef Py_ssize_t window(self, char** data) except -1
    cdef Py_ssize_t fill(self, char* into, Py_ssize_t n) except -1
    cdef int wait_for_more(self) except -1
    cdef ByteSource begun(self)
    cdef int advance(self, Py_ssize_t n) except -1
    cdef int spent(self, Py_ssize_t n) noexcept
    cdef int gone(self) except -1
    cdef bint next_chunk(self) except -1
    cdef bytes take(self, int64_t size)
    cdef bytes take_line(self, int64_t limit)
