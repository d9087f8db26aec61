"""Readiness by epoll (Linux), edge-triggered. The contract is poller.pyx.

Fact: a level-triggered descriptor that is readable while its tasklet is blocked elsewhere wakes epoll_wait at
every turn, and muting it costs an epoll_ctl per wait. Danger: with edges, a reader that stops before EAGAIN
is never woken again. Decision: one EPOLL_CTL_ADD per descriptor, for both directions; all callers try first
and wait only after EAGAIN. Price: none measured. Guarded by tests/core/test_loop.py.

wake() writes nothing: it makes the kernel look again at a descriptor that is ready. In the wrong place,
which a number may be at any time (poller.pyx), a byte could be written into a file of the program; a wrong
epoll_ctl fails.
"""

from libc.errno cimport EEXIST, EINTR, ENOSYS, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from posix.unistd cimport close as os_close

from syncless._core.poll.poller cimport HANGUP, READ, WRITE, Poller, PollEvent

cdef extern from "<sys/epoll.h>" nogil:
    int EPOLLONESHOT, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD
    uint32_t EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP, EPOLLET
    ctypedef union epoll_data_t:
        uint64_t u64
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event* event)
    int epoll_wait(int epfd, epoll_event* events, int maxevents, int timeout)

cdef extern from *:
    """
    #include <sys/syscall.h>
    #include <unistd.h>
    #include <time.h>
    #include <errno.h>
    #include <sys/epoll.h>
    #include <sys/eventfd.h>
    static int syncless_eventfd(void) {
        return eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    #ifndef SYS_epoll_pwait2
    #define SYS_epoll_pwait2 441
    #endif
    /* Waits to the nanosecond where the kernel can (5.11); by system call number, so that older C libraries
       do. */
    static int syncless_epoll_pwait2(int epfd, struct epoll_event *events, int room, long long ns) {
        struct timespec ts = {ns / 1000000000, ns % 1000000000};
        return (int)syscall(SYS_epoll_pwait2, epfd, events, room, &ts, (void *)0, (size_t)0);
    }
    """
    int eventfd "syncless_eventfd" () noexcept nogil
    int syncless_epoll_pwait2(int epfd, epoll_event* events, int room, long long ns) nogil

cdef enum:
    BATCH = 256
    PIPE = 0xffffffff           # stand for the descriptor in an event's data: bytes in the pipe
    WOKEN = 0xfffffffe          # wake()

cdef class EpollPoller(Poller):
    cdef int epoll_fd
    cdef int spare          # a ready descriptor, made when the pipe has gone; or -1
    cdef bint coarse        # the kernel has no epoll_pwait2: milliseconds, rounded up

    def __cinit__(self):
        self.name = "epoll"
        self.epoll_fd = self.spare = -1

    def __dealloc__(self):
        self.close()

    cdef int open(self) except -1:
        self.close()
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError(errno, "cannot open the epoll backend; SYNCLESS_LOOP=select chooses another")
        self.open_wake_pipe()
        if self.set(EPOLL_CTL_ADD, self.wake_read, EPOLLIN | EPOLLET, PIPE) < 0 or (
                self.set(EPOLL_CTL_ADD, self.wake_fd, 0, WOKEN) < 0):
            raise OSError(errno, "epoll_ctl on the wake-up descriptor failed")
        return 0

    cdef int set(self, int action, int fd, uint32_t events, uint64_t data) noexcept nogil:
        cdef epoll_event event
        event.events = events
        event.data.u64 = data
        return epoll_ctl(self.epoll_fd, action, fd, &event)

    cdef void wake(self) noexcept nogil:
        if self.set(EPOLL_CTL_MOD, self.wake_fd, EPOLLOUT | EPOLLONESHOT, WOKEN) == 0:
            return
        # wait() may be under way on an epoll that has lost the pipe: another ready descriptor ends it
        self.lost = True
        if self.spare < 0:
            self.spare = eventfd()
            if self.set(EPOLL_CTL_ADD, self.spare, EPOLLIN | EPOLLET, WOKEN) < 0:
                os_close(self.spare)
                self.spare = -1

    cdef bint is_whole(self) noexcept:
        return Poller.is_whole(self) and self.is_ours()

    cdef bint is_ours(self) noexcept:
        """Return whether the number is that of our epoll: no other has the pipe in it."""
        return self.set(EPOLL_CTL_MOD, self.wake_read, EPOLLIN | EPOLLET, PIPE) == 0

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        cdef uint32_t events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET
        cdef uint64_t data = (<uint64_t> gen << 32) | <uint32_t> fd
        cdef int error
        if self.set(EPOLL_CTL_ADD, fd, events, data) < 0:
            error = errno
            if not self.is_whole():
                self.lost = True                # the loop arms it later
            # EEXIST: the number was closed and its description lives on in a duplicate; MOD brings the new
            # generation and a fresh look at its readiness.
            elif error != EEXIST or self.set(EPOLL_CTL_MOD, fd, events, data) < 0:
                raise OSError(error, f"cannot wait for descriptor {fd} (epoll_ctl)")
        return READ | WRITE

    cdef int disarm(self, int fd) noexcept:
        cdef epoll_event event
        epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, &event)
        return 0

    cdef int forget(self, int fd) noexcept:
        return 0                                # close() takes it out of the epoll set

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        cdef epoll_event raw[BATCH]
        cdef int n, i, kept = 0, error = 0
        cdef uint32_t seen
        if room > BATCH:
            room = BATCH
        if timeout == 0:
            # A poll that does not wait is over sooner than a hand-over of the GIL.
            n = epoll_wait(self.epoll_fd, raw, room, 0)
            error = errno
        else:
            with nogil:
                if timeout < 0:
                    n = epoll_wait(self.epoll_fd, raw, room, -1)
                elif not self.coarse:
                    n = syncless_epoll_pwait2(self.epoll_fd, raw, room, timeout)
                else:
                    n = epoll_wait(self.epoll_fd, raw, room,
                        <int> min((timeout + 999999) // 1000000, 86400000))
                error = errno
            if n < 0 and error == ENOSYS:
                self.coarse = True
                return self.wait(events, room, timeout)
        if n < 0:
            if error == EINTR:
                return 0
            if not self.is_whole():
                self.lost = True
                return 0
            raise OSError(error, "epoll_wait failed")
        for i in range(n):
            if raw[i].data.u64 == PIPE:
                self.drain_wake_pipe()
                continue
            if raw[i].data.u64 == WOKEN:
                continue
            seen = raw[i].events
            events[kept].fd = <int> <uint32_t> raw[i].data.u64
            events[kept].gen = <uint32_t> (raw[i].data.u64 >> 32)
            events[kept].bits = (READ if seen & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP) else 0) | (
                WRITE if seen & (EPOLLOUT | EPOLLERR | EPOLLHUP) else 0) | (
                HANGUP if seen & (EPOLLRDHUP | EPOLLERR | EPOLLHUP) else 0)
            events[kept].disarmed = 0           # every edge is reported
            kept += 1
        return kept

    cdef void close(self) noexcept:
        if self.epoll_fd >= 0 and self.is_of_pipe(self.wake_read) and self.is_ours():
            os_close(self.epoll_fd)
            if self.spare >= 0:
                os_close(self.spare)
        self.epoll_fd = self.spare = -1
        self.close_wake_pipe()
