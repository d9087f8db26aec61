"""The contract of a backend: eight functions and three attributes. One file per facility.

open()                  take the descriptors it needs; called again in a child after fork
arm(fd, gen, bits)      report when fd is next ready for bits. Returns the directions that are armed from now
                        on: at least bits. Each stays armed until an event names it in `disarmed`, or
                        disarm() or forget()
disarm(fd)              report fd no more; unknown descriptors are ignored
forget(fd)              as disarm(fd), for a descriptor that is closed next: free where the kernel forgets it
                        by itself
wait(events, room, ns)  fill in up to `room` events, waiting up to ns nanoseconds (NEVER: without end), with
                        the GIL released. Returns their number; 0 also after a signal or wake()
wake()                  make a wait() that runs in another thread return; callable from any thread, without
                        the GIL
is_whole()              whether its descriptors are still its own
close()                 give back those that are

Whether a backend reports every edge or one event per arm() is told by what arm() returns and by `disarmed`,
and nowhere else.

wake() writes to `wake_fd`, one end of a pipe, and so may others that cannot call it: the interpreter writes
there when a signal comes (signal.set_wakeup_fd).

Fact: a program may close descriptors that it has not opened, as a daemon does (os.closerange), or put
others in their place (dup2). Danger: the loop spins on EBADF, or reads and writes files of the program.
Decision: the pipe is known by its inode, and what is registered shows whose the other descriptor is. When a
call fails, or before the pipe is used, they are looked at; if they are strange, `lost` is set, wait()
returns, and the loop opens the backend again and arms everything anew. Price: nothing until then, with
epoll; a system call for each wake() with the others. Guarded by tests/core/test_strange_descriptors.py.

A backend knows nothing of tasklets, timers or waiters. Every caller tries its system call before it waits,
so no readiness is remembered here.

Two backends are here, because every POSIX system has them; both give one report per arm(). poll(2): another
thread may arm a descriptor while poll reads the array, which moves when it grows. So each wait() reads a
copy, and a report counts if the descriptor is armed still. Price: eight bytes are copied for each armed
descriptor, at which poll looks anyway. A descriptor that was closed counts as ready (POLLNVAL), so that its
caller meets the error.

select(2): an fd_set ends at FD_SETSIZE (1024), and setting a bit beyond it writes over foreign memory. So
arm() refuses such a descriptor with an error that says what to do. One bad descriptor makes select fail for
all, so on EBADF each is probed with fcntl and the bad ones are reported as ready, so that their callers meet
the error themselves.
"""

import os

from libc.errno cimport EBADF, EINTR, errno
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.fcntl cimport F_GETFD, fcntl
from posix.stat cimport fstat, struct_stat
from posix.unistd cimport close as os_close, read as os_read, write as os_write


cdef class Poller:
    def __cinit__(self):
        self.wake_fd = self.wake_read = -1

    cdef int open(self) except -1:
        raise NotImplementedError("a backend defines open()")

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        raise NotImplementedError("a backend defines arm()")

    cdef int disarm(self, int fd) noexcept:
        return 0

    cdef int forget(self, int fd) noexcept:
        return self.disarm(fd)

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        raise NotImplementedError("a backend defines wait()")

    cdef void wake(self) noexcept nogil:
        if self.is_of_pipe(self.wake_fd):
            os_write(self.wake_fd, b"w", 1)     # a full pipe has bytes that wake it already
        else:
            self.lost = True

    cdef bint is_whole(self) noexcept:
        return self.is_of_pipe(self.wake_read) and self.is_of_pipe(self.wake_fd)

    cdef void close(self) noexcept:
        pass

    # -- for backends: the pipe that wakes them ---------------------------------------------------

    cdef int open_wake_pipe(self) except -1:
        self.wake_read, self.wake_fd = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_fd, False)
        fstat(self.wake_fd, &self.pipe)
        self.lost = False
        return 0

    cdef bint is_of_pipe(self, int fd) noexcept nogil:
        """Return whether the descriptor is still an end of that pipe."""
        cdef struct_stat now
        return fd >= 0 and fstat(fd, &now) == 0 and now.st_ino == self.pipe.st_ino and (
            now.st_dev == self.pipe.st_dev)

    cdef int drain_wake_pipe(self) noexcept nogil:
        cdef char bytes[64]
        cdef ssize_t n = 64
        while n == 64 and self.is_of_pipe(self.wake_read):
            n = os_read(self.wake_read, bytes, 64)
        if n == 64 or n == 0:                   # strange, or its other end has gone
            self.lost = True
        return 0

    cdef void close_wake_pipe(self) noexcept:
        if self.is_of_pipe(self.wake_read):
            os_close(self.wake_read)
        if self.is_of_pipe(self.wake_fd):
            os_close(self.wake_fd)
        self.wake_fd = self.wake_read = -1


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


cdef extern from "<sys/select.h>" nogil:
    ctypedef struct fd_set:
        pass
    struct timeval:
        long tv_sec
        long tv_usec
    int FD_SETSIZE
    void FD_ZERO(fd_set* s)
    void FD_SET(int fd, fd_set* s)
    int FD_ISSET(int fd, fd_set* s)
    int select(int nfds, fd_set* r, fd_set* w, fd_set* e, timeval* timeout)

cdef class SelectPoller(Poller):
    def __cinit__(self):
        self.name = "select"
        self.armed = {}

    def __dealloc__(self):
        self.close()

    cdef int open(self) except -1:
        self.close()
        self.armed = {}
        self.open_wake_pipe()
        if self.wake_read >= FD_SETSIZE:
            raise OSError(
                f"the select backend supports only descriptors below {FD_SETSIZE}; SYNCLESS_LOOP=poll has "
                "no such limit")
        return 0

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        if fd >= FD_SETSIZE:
            raise OSError(
                f"the select backend supports only descriptors below {FD_SETSIZE}, not {fd}; "
                "SYNCLESS_LOOP=poll has no such limit")
        known = self.armed.get(fd)
        if known is not None and known[0] == gen:
            bits |= known[1]
        self.armed[fd] = (gen, bits)
        return bits

    cdef int disarm(self, int fd) noexcept:
        self.armed.pop(fd, None)
        return 0

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        cdef fd_set readable, writable, failed
        cdef timeval tv
        cdef timeval* limit = NULL
        cdef int n, fd, bits, seen, kept = 0, highest = self.wake_read, error
        FD_ZERO(&readable)
        FD_ZERO(&writable)
        FD_ZERO(&failed)
        FD_SET(self.wake_read, &readable)
        for fd, (_, bits) in self.armed.items():
            if bits & READ:
                FD_SET(fd, &readable)
            if bits & WRITE:
                FD_SET(fd, &writable)
                FD_SET(fd, &failed)
            if fd > highest:
                highest = fd
        if timeout >= 0:
            tv.tv_sec = timeout // 1000000000
            tv.tv_usec = (timeout % 1000000000 + 999) // 1000
            if tv.tv_usec == 1000000:
                tv.tv_sec += 1
                tv.tv_usec = 0
            limit = &tv
        with nogil:
            n = select(highest + 1, &readable, &writable, &failed, limit)
            error = errno
        if n < 0:
            if error == EINTR:
                return 0
            if not self.is_whole():
                self.lost = True
                return 0
            if error != EBADF:
                raise OSError(error, "select failed")
        elif n == 0:
            return 0
        elif FD_ISSET(self.wake_read, &readable):
            self.drain_wake_pipe()
        for fd, (gen, bits) in list(self.armed.items()):
            if kept == room:
                break
            seen = 0
            if n < 0:
                if fcntl(fd, F_GETFD) < 0:
                    seen = READ | WRITE
            else:
                if FD_ISSET(fd, &readable):
                    seen |= READ
                if FD_ISSET(fd, &writable) or FD_ISSET(fd, &failed):
                    seen |= WRITE
                seen &= bits
            if seen:
                events[kept].fd = fd
                events[kept].gen = gen
                events[kept].bits = seen
                events[kept].disarmed = seen
                kept += 1
                if bits & ~seen:
                    self.armed[fd] = (gen, bits & ~seen)
                else:
                    del self.armed[fd]
        return kept

    cdef void close(self) noexcept:
        self.close_wake_pipe()
