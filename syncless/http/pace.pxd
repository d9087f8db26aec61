from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless.http.wire cimport limits, pace


cdef class Pace:
    cdef pace state
    cdef void look(self, int fd) noexcept


cdef class Paces:
    cdef Loop loop          # for its clock
    cdef const limits* limits       # of its listener
    cdef dict by_fd
    cdef Py_ssize_t count
    cdef int stalled(self, int fd, Py_ssize_t more) except -1
    cdef int rested(self, int fd) except -1
    cdef int sent_more(self, int fd, Py_ssize_t n) except -1
    cdef int forget(self, int fd) except -1
    cdef bint too_slow(self, int fd) except -1
    cdef bint may_wait(self, int fd) except -1
