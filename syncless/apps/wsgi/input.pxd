"""A request body as a stream. See input.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless.http.peer cimport Body


cdef class _Growing:                # a bytes object that grows as data is appended
    cdef PyObject* whole            # owned; NULL while it has no room
    cdef Py_ssize_t size, room      # bytes used and there

    cdef char* space(self, int64_t most) except NULL
    cdef int add(self, const char* data, Py_ssize_t n) except -1
    cdef bytes result(self)


cdef class Input:
    cdef Body body                  # its own: a stream that an application keeps stays the one of its request

    cdef bytes take(self, int64_t size)
    cdef bytes take_line(self, int64_t limit)
