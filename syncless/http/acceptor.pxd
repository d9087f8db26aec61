"""Accepting connections, and making room for them. See acceptor.pyx."""

from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop, Watcher
from syncless._core.timers cimport Timer
from syncless.http.listener cimport Listener

cdef bint evict_one(Listener listener) except -1


cdef class Acceptor(Watcher):
    cdef Listener listener
    cdef Loop loop              # the listener's
    cdef readonly int fd
    cdef Timer retry
    cdef unsigned last          # the last client's IPv4 address, 0 if it had none
    cdef object last_text       # the same as text, shared by the connections from there
    cdef bint closed
    cdef bint paused            # other processes accept meanwhile
    cdef bint takes_all         # beyond Limits.connections, too: the server stops
    cdef int accept(self, Loop loop) except -1
    cdef int open(self, Loop loop, int fd, const char* address, int port) except -1
    cdef bint evict_elsewhere(self, Loop loop) except -1
    cdef bint shortage(self, Loop loop, int error) except -1


cdef int prepare(Listener listener) except -1


cdef enum:
    SIDES = 16              # threads that serve one server, at most
    SOCKETS = 64            # on which it listens

cdef struct Side:           # what is read of a thread without the interpreter's lock
    const int* polling
    const int64_t* polled_at
    const Py_ssize_t* connections[SOCKETS]
    const long long* requests[SOCKETS]
    long long seen          # requests at the last look
    int64_t told            # when another was last told that this one is held, ns
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
