"""Readiness by select(2): portable and plain, one report per arm(). The contract is poller.pyx.

Fact: an fd_set ends at FD_SETSIZE (1024) and setting a bit beyond it writes over foreign memory. Decision:
arm() refuses such a descriptor with an error that says what to do. Fact: one bad descriptor makes select fail
for all. Decision: on EBADF each is probed with fcntl and the bad ones are reported as ready, so that their
callers meet the error themselves.
"""

from libc.errno cimport EBADF, EINTR, errno
from libc.stdint cimport int64_t, uint32_t
from posix.fcntl cimport F_GETFD, fcntl

from syncless._core.poll.poller cimport READ, WRITE, Poller, PollEvent

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
                f"the select backend serves descriptors below {FD_SETSIZE}; "
                "SYNCLESS_LOOP=poll has no such limit")
        return 0

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        if fd >= FD_SETSIZE:
            raise OSError(
                f"the select backend serves descriptors below {FD_SETSIZE}, not {fd}; "
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
