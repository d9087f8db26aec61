"""Which of several loops stands still, and what another takes over from it. See takeover.pyx."""

from libc.stdint cimport int64_t

cdef enum:
    SIDES = 16              # threads that serve one server, at most
    SOCKETS = 64            # on which it listens

cdef struct Side:           # what is read of a thread without the interpreter's lock
    const int* polling
    const int64_t* polled_at
    const Py_ssize_t* connections[SOCKETS]
    const long long* requests[SOCKETS]
    long long seen          # requests at the last look
    int line                # written to when the thread has something to do


cdef class Watch:
    cdef list kept          # the loops and listeners that the sides point into
    cdef Side sides[SIDES]
    cdef int count
    cdef int sockets
    cdef int64_t held_ns
    cdef int active_side
    cdef int ended

    cdef int64_t look(self) noexcept nogil
    cdef int taker_for(self, int held) noexcept nogil
