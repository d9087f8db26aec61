"""What a backend must do: six functions and two attributes. One file per facility: poll_epoll, poll_select.

open()                  take the descriptors it needs; called again in a child after fork
arm(fd, gen, bits)      report the next time that fd is ready for bits. An edge-triggered backend (`edge` true) needs one call per
                        descriptor and then reports every edge; the others report once and forget
disarm(fd)              report it no more; unknown descriptors are ignored
wait(events, room, ns)  fill in up to `room` events, waiting up to ns nanoseconds (NEVER: without end), with the GIL released.
                        Returns their number; 0 also after a signal or wake()
wake()                  make a wait() that runs in another thread return; callable from any thread, without the GIL
close()                 give everything back

A backend knows nothing of tasklets, timers or who waits. Every caller tries its system call before it waits, so no readiness is
remembered here.
"""

cdef class Poller:
    cdef int open(self) except -1:
        raise NotImplementedError("a backend defines open()")

    cdef int arm(self, int fd, uint32_t gen, int bits) except -1:
        raise NotImplementedError("a backend defines arm()")

    cdef int disarm(self, int fd) noexcept:
        return 0

    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1:
        raise NotImplementedError("a backend defines wait()")

    cdef void wake(self) noexcept nogil:
        pass

    cdef void close(self) noexcept:
        pass
