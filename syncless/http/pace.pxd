from libc.stdint cimport int64_t

from syncless.http.listener cimport Listener


cdef class Pace:
    cdef int64_t since      # when the present wait began; 0: none
    cdef int64_t waited     # ns before it
    cdef int64_t given      # bytes for the kernel: what lay there at the first wait, and all since
    cdef int64_t taken      # of them, by the client, when we last looked
    cdef int64_t progress   # when we last saw it take some
    cdef int look(self, int fd) except -1

cdef int stalled(Listener listener, int fd) except -1
cdef int forget_pace(Listener listener, int fd) except -1
cdef int rested(Listener listener, int fd) except -1
cdef int sent_more(Listener listener, int fd, Py_ssize_t n) except -1
cdef bint too_slow(Listener listener, int fd) except -1
cdef bint may_wait(Listener listener, int fd) except -1
