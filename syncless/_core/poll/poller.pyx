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
"""

import os

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
        """Whether the descriptor is still an end of that pipe."""
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
