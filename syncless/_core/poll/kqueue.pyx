"""Readiness by kqueue (BSD, macOS), edge-triggered (EV_CLEAR). The contract is poller.pyx.

Each direction is a filter of its own, and is armed when it is first asked for: some descriptors refuse the
other one, such as the reading end of a pipe.

Fact: the kernel refuses to watch a pipe that nobody can read any more (EPIPE). Decision: the next wait()
reports it, because its caller must meet the error. Guarded by
tests/core/test_kqueue.py::test_pipe_without_a_reader_is_ready.

Fact: a child has no kqueue after fork(), so the number of its parent's may belong to another file there.
Decision: close() leaves the number alone in a child. On Linux there is no kqueue but libkqueue, an emulation
on which this file is tested (tests/portable.sh). It keeps a descriptor in the child, and does not forget
filters of closed descriptors by itself, so both are done by hand there.
"""

from libc.errno cimport EINTR, EPERM, EPIPE, errno
from libc.stdint cimport int64_t, uint32_t
from posix.fcntl cimport F_SETFD, FD_CLOEXEC, fcntl
from posix.time cimport time_t, timespec
from posix.unistd cimport close as os_close, getpid

from syncless._core.poll.poller cimport HANGUP, READ, WRITE, Poller, PollEvent

cdef extern from *:
    """
    #include <sys/types.h>
    #include <sys/event.h>
    #include <sys/stat.h>
    #include <sys/time.h>
    #ifdef __linux__
    #define SYNCLESS_EMULATED 1
    #else
    #define SYNCLESS_EMULATED 0
    #endif
    /* EV_SET is a macro, and the fields of struct kevent are of other types on each system. */
    static void syncless_ev_set(struct kevent *event, int fd, int filter, int flags, size_t gen) {
        EV_SET(event, fd, filter, flags, 0, 0, (void *)gen);
    }
    /* EVFILT_READ waits at the end of a regular file until that grows; read(2) does not. */
    static int syncless_is_regular(int fd) {
        struct stat found;
        return fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
    }
    static size_t syncless_gen_of(const struct kevent *event) { return (size_t)event->udata; }
    """
    struct kevent_t "kevent":
        size_t ident
        short filter
        unsigned short flags
    int kqueue() nogil
    int kevent(
        int kq, const kevent_t* changes, int count, kevent_t* events, int room, const timespec* limit) nogil
    void syncless_ev_set(kevent_t* event, int fd, int filter, int flags, size_t gen) nogil
    bint syncless_is_regular(int fd) nogil
    size_t syncless_gen_of(const kevent_t* event) nogil
    int EVFILT_READ, EVFILT_WRITE, EV_ADD, EV_CLEAR, EV_DELETE, EV_EOF, EV_ERROR
    bint SYNCLESS_EMULATED

cdef enum:
    BATCH = 256
    LONGEST = 86400     # seconds; the kernel refuses a wait of years


cdef class KqueuePoller(Poller):
    cdef int kqueue_fd
    cdef int process            # that has opened it: a child has no kqueue of its parent
    cdef list broken            # (descriptor, generation): pipes without a reader, for the next wait()

    def __cinit__(self):
        self.name = "kqueue"
        self.kqueue_fd = -1
        self.broken = []

    def __dealloc__(self):
        self.close()

    cdef int open(self) except -1:
        self.close()
        self.kqueue_fd = kqueue()
        if self.kqueue_fd < 0:
            raise OSError(errno, "cannot open the kqueue backend; SYNCLESS_LOOP=poll chooses another")
        fcntl(self.kqueue_fd, F_SETFD, FD_CLOEXEC)
        self.process = getpid()
        self.broken = []
        self.open_wake_pipe()
        if self.change(self.wake_read, EVFILT_READ, EV_ADD | EV_CLEAR, 0) < 0:
            raise OSError(errno, "kevent on the wake-up descriptor failed")
        return 0

    cdef int change(self, int fd, int filter, int flags, size_t gen) noexcept:
        """-1 and errno."""
        cdef kevent_t event
        syncless_ev_set(&event, fd, filter, flags, gen)
        return kevent(self.kqueue_fd, &event, 1, NULL, 0, NULL)

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        if syncless_is_regular(fd):
            raise OSError(EPERM, f"cannot wait for descriptor {fd}: a regular file is always ready")
        if (bits & READ and self.change(fd, EVFILT_READ, EV_ADD | EV_CLEAR, gen) < 0) or (
                bits & WRITE and self.change(fd, EVFILT_WRITE, EV_ADD | EV_CLEAR, gen) < 0):
            if errno != EPIPE and not self.is_whole():
                self.lost = True                # the loop arms it later
            elif errno != EPIPE:
                raise OSError(errno, f"cannot wait for descriptor {fd} (kevent)")
            self.broken.append((fd, gen))
        return bits

    cdef bint is_whole(self) noexcept:
        return Poller.is_whole(self) and self.change(self.wake_read, EVFILT_READ, EV_ADD | EV_CLEAR, 0) == 0

    cdef int disarm(self, int fd) noexcept:
        self.change(fd, EVFILT_READ, EV_DELETE, 0)      # ENOENT where it is not armed
        self.change(fd, EVFILT_WRITE, EV_DELETE, 0)
        return 0

    cdef int forget(self, int fd) noexcept:
        return self.disarm(fd) if SYNCLESS_EMULATED else 0      # the kernel does it when it closes

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        cdef kevent_t raw[BATCH]
        cdef timespec limit
        cdef int n, i, kept = 0, error, bits
        if room > BATCH:
            room = BATCH
        if self.broken and room > 0:
            events[0].fd, events[0].gen = self.broken.pop()
            events[0].bits = WRITE | HANGUP
            events[0].disarmed = WRITE
            return 1
        limit.tv_sec = <time_t> min(timeout // 1000000000, LONGEST)
        limit.tv_nsec = <long> (timeout % 1000000000)
        if timeout == 0:
            # A poll that does not wait is over sooner than a hand-over of the GIL.
            n = kevent(self.kqueue_fd, NULL, 0, raw, room, &limit)
            error = errno
        else:
            with nogil:
                n = kevent(self.kqueue_fd, NULL, 0, raw, room, NULL if timeout < 0 else &limit)
                error = errno
        if n < 0:
            if error == EINTR:
                return 0
            if not self.is_whole():
                self.lost = True
                return 0
            raise OSError(error, "kevent failed")
        for i in range(n):
            if <int> raw[i].ident == self.wake_read:
                self.drain_wake_pipe()
                continue
            bits = READ if raw[i].filter == EVFILT_READ else WRITE
            if raw[i].flags & EV_ERROR:
                bits = READ | WRITE | HANGUP
            elif raw[i].flags & EV_EOF:
                bits |= HANGUP
            events[kept].fd = <int> raw[i].ident
            events[kept].gen = <uint32_t> syncless_gen_of(&raw[i])
            events[kept].bits = bits
            events[kept].disarmed = 0                   # every edge is reported
            kept += 1
        return kept

    cdef void close(self) noexcept:
        if self.kqueue_fd >= 0 and (SYNCLESS_EMULATED or self.process == getpid()):
            os_close(self.kqueue_fd)
        self.kqueue_fd = -1
        self.close_wake_pipe()
