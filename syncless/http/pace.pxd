from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless.http.limits cimport LimitValues


cdef class Pace:
    cdef int64_t since      # when the present wait began; 0: none
    cdef int64_t waited     # ns before it
    cdef int64_t given      # bytes for the kernel: those that lay there at the first wait, and all since
    cdef int64_t taken      # of them, by the client, when we last looked
    cdef int64_t progress   # when we last saw it take some
    cdef int look(self, int fd) except -1


cdef class Paces:
    cdef Loop loop          # for its clock
    cdef LimitValues limits
    cdef dict by_fd
    cdef Py_ssize_t count
    cdef int stalled(self, int fd, Py_ssize_t more) except -1
    cdef int rested(self, int fd) except -1
    cdef int sent_more(self, int fd, Py_ssize_t n) except -1
    cdef int forget(self, int fd) except -1
    cdef bint too_slow(self, int fd) except -1
    cdef bint may_wait(self, int fd) except -1
