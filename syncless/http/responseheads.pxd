cimport cython
from libc.stdint cimport int64_t

from syncless.http.buffers cimport Buffer


@cython.final
cdef class ResponseHeads:
    # the Server and Date fields
    cdef int64_t dated              # seconds since 1970
    cdef bytes date_block
    # status lines
    cdef dict status_lines          # status -> (line, code)
    cdef object read_status         # the last that status_code() has read
    cdef bytes status_line          # of it
    cdef int code                   # of it
    # the last head
    cdef object status
    cdef tuple headers              # None: nothing is remembered
    cdef bytes head_dates           # the block that it has
    cdef bytes head                 # with the empty line at its end
    cdef int64_t length             # its Content-Length, or -1
    cdef bint closes                # it said Connection: close

    cdef int status_code(self, object status) except -1
    cdef bytes dates(self)
    cdef bint is_last(self, object status, list headers) except -1
    cdef bint is_same(self, int status, list headers) except -1
    cdef int remember(self, object status, list headers, Buffer* head, int64_t length, bint closes) except -1
