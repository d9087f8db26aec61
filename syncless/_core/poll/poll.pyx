"""Readiness by poll(2): on any POSIX system, and without select's limit of descriptors; one report per arm().
The contract is poller.pyx.

Fact: another thread may arm a descriptor while poll reads the array. Danger: the array moves when it grows.
Decision: each wait() reads a copy, and a report counts if the descriptor is armed still. Price: eight bytes
are copied for each armed descriptor, at which poll looks anyway. A descriptor that was closed counts as ready
(POLLNVAL), so that its caller meets the error.
"""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from syncless._core.poll.poller cimport READ, WRITE, Poller, PollEvent

cdef extern from "<poll.h>" nogil:
    short POLLIN, POLLOUT

cdef extern from *:
    """
    #include "syncless_config.h"
    /* Waits to the nanosecond where the system can. */
    static int syncless_poll(struct pollfd *fds, unsigned long count, long long ns) {
    #if SYNCLESS_PPOLL
        struct timespec limit = {ns / 1000000000, ns % 1000000000};
        return ppoll(fds, count, ns < 0 ? NULL : &limit, NULL);
    #else
        long long most = 86400000, milliseconds = ns / 1000000 + (ns % 1000000 != 0);
        return poll(fds, count, ns < 0 ? -1 : (int)(milliseconds < most ? milliseconds : most));
    #endif
    }
    """
    int syncless_poll(pollfd* fds, unsigned long count, int64_t ns) nogil


cdef class PollPoller(Poller):
    def __cinit__(self):
        self.name = "poll"
        self.places = {}

    def __dealloc__(self):
        self.close()
        free(self.fds)
        free(self.copied)
        free(self.gens)

    cdef int open(self) except -1:
        self.close()
        self.places = {}
        self.used = 0
        self.open_wake_pipe()
        self.arm(self.wake_read, 0, READ)           # its place is 0, which it keeps
        return 0

    cdef int grow(self) except -1:
        cdef int room = 2 * self.room if self.room else 64
        cdef void* fds = realloc(self.fds, room * sizeof(pollfd))
        cdef void* gens
        if fds == NULL:
            raise MemoryError
        self.fds = <pollfd*> fds
        gens = realloc(self.gens, room * sizeof(uint32_t))
        if gens == NULL:
            raise MemoryError
        self.gens = <uint32_t*> gens
        self.room = room
        return 0

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        cdef int place = self.places.get(fd, -1)
        if place < 0:
            if self.used == self.room:
                self.grow()
            place = self.used
            self.places[fd] = place
            self.used += 1
            self.fds[place].fd = fd
            self.fds[place].events = 0
        elif self.gens[place] != gen:
            self.fds[place].events = 0
        self.gens[place] = gen
        return self.set_armed(place, self.armed(place) | bits)

    cdef int armed(self, int place) noexcept:
        cdef int events = self.fds[place].events
        return (READ if events & POLLIN else 0) | (WRITE if events & POLLOUT else 0)

    cdef int set_armed(self, int place, int bits) noexcept:
        self.fds[place].events = (POLLIN if bits & READ else 0) | (POLLOUT if bits & WRITE else 0)
        return bits

    cdef int disarm(self, int fd) noexcept:
        cdef int place = self.places.pop(fd, -1)
        if place >= 0:
            self.used -= 1
            if place != self.used:                  # the last one moves to its place
                self.fds[place] = self.fds[self.used]
                self.gens[place] = self.gens[self.used]
                self.places[self.fds[place].fd] = place
        return 0

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        cdef int n, seen, fd, place, kept = 0, number, error, count = self.used
        cdef void* copied
        if count > self.copied_room:
            copied = realloc(self.copied, self.room * sizeof(pollfd))
            if copied == NULL:
                raise MemoryError
            self.copied = <pollfd*> copied
            self.copied_room = self.room
        memcpy(self.copied, self.fds, count * sizeof(pollfd))
        with nogil:
            n = syncless_poll(self.copied, count, timeout)
            error = errno
        if n < 0:
            if error == EINTR:
                return 0
            if not self.is_whole():
                self.lost = True
                return 0
            raise OSError(error, "poll failed")
        if n > 0 and self.copied[0].revents:
            self.drain_wake_pipe()
            n -= 1
        for number in range(1, count):
            if n == 0 or kept == room:
                break
            seen = self.copied[number].revents
            if not seen:
                continue
            n -= 1
            fd = self.copied[number].fd
            place = self.places.get(fd, -1)
            if place < 0:
                continue
            if seen & ~(POLLIN | POLLOUT):          # it has failed or hung up: the callers find out
                seen |= POLLIN | POLLOUT
            seen = self.armed(place) & ((READ if seen & POLLIN else 0) | (WRITE if seen & POLLOUT else 0))
            events[kept].fd = fd
            events[kept].gen = self.gens[place]
            events[kept].bits = seen
            events[kept].disarmed = seen
            kept += 1
            if not self.set_armed(place, self.armed(place) & ~seen):
                self.disarm(fd)
        return kept

    cdef void close(self) noexcept:
        self.close_wake_pipe()
