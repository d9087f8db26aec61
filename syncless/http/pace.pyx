"""How fast a client takes an answer for which the server has to wait.

A Pace exists from the first moment at which the kernel takes no more until the answer is sent or the
connection closed, so a client that keeps up costs nothing. See Limits.write_rate, Limits.write_seconds, and
peer.pyx, which sends. Takes descriptors. Knows nothing of connections.

Fact: the kernel tells of room in a socket only when a third of its buffer is free, which may be a megabyte.
Danger: a client that reads 50 kB each second seems to stand still for twenty. Decision: the bytes that wait
in the socket are asked for (SIOCOUTQ), every few seconds. Price: a system call when a client has made us wait
for longer than Limits.write_grace_seconds. Where there is none, what the kernel takes counts. Test:
tests/wsgi/test_client_limits.py::test_slow_client_goes_on_if_it_may
"""

cimport cython
from syncless._core.clock cimport monotonic_ns
from syncless._core.loop cimport Loop
from syncless.http.wire cimport pace_counts, pace_is_too_slow, pace_look, pace_may_wait

cdef extern from *:
    """
    #include "syncless_config.h"
    #include <sys/ioctl.h>
    #if SYNCLESS_SIOCOUTQ
    #include <linux/sockios.h>
    #endif

    /* Bytes that the socket holds for a peer that has not acknowledged them. */
    static int syncless_unsent(int fd) {
        int bytes = 0;
    #if SYNCLESS_SIOCOUTQ
        if (ioctl(fd, SIOCOUTQ, &bytes) < 0)
            return 0;
    #endif
        return bytes;
    }
    """
    int unsent "syncless_unsent" (int fd) nogil


cdef class Pace:
    """Of one client."""

    cdef void look(self, int fd) noexcept:
        pace_look(&self.state, unsent(fd), monotonic_ns())


@cython.final
cdef class Paces:
    """Of a listener's clients that are slow to take an answer, by descriptor."""

    def __cinit__(self, Loop loop not None):
        self.loop = loop
        self.by_fd = {}

    cdef int stalled(self, int fd, Py_ssize_t more) except -1:
        """The client takes no more now: a wait begins, or goes on after it has taken `more` bytes."""
        cdef Pace pace = self.by_fd.get(fd)
        if pace is None:
            self.by_fd[fd] = pace = Pace()
            self.count += 1
            pace.state.given = unsent(fd)
            pace.state.progress = self.loop.clock.now
        else:
            pace.state.given += more
        if pace.state.since == 0:
            pace.state.since = self.loop.clock.now
        return 0

    cdef int rested(self, int fd) except -1:
        """The wait is over."""
        cdef Pace pace = self.by_fd.get(fd)
        if pace is not None and pace.state.since:
            pace.state.waited += monotonic_ns() - pace.state.since
            pace.state.since = 0
        return 0

    cdef int sent_more(self, int fd, Py_ssize_t n) except -1:
        cdef Pace pace = self.by_fd.get(fd)
        if pace is not None:
            pace.state.given += n
        return 0

    cdef int forget(self, int fd) except -1:
        """The answer is sent, or the connection closed."""
        if self.by_fd.pop(fd, None) is not None:
            self.count -= 1
        return 0

    cdef bint too_slow(self, int fd) except -1:
        """Whether the client has taken too little; asks the kernel where that may be so."""
        cdef Pace pace = self.by_fd.get(fd)
        if pace is None or not pace_counts(&pace.state, self.limits, monotonic_ns()):
            return False
        pace.look(fd)
        return pace_is_too_slow(&pace.state, self.limits, monotonic_ns())

    cdef bint may_wait(self, int fd) except -1:
        """Whether a wait at whose client we look now may go on."""
        cdef Pace pace = self.by_fd.get(fd)
        if pace is None:
            return False
        pace.look(fd)
        return pace_may_wait(&pace.state, self.limits, monotonic_ns())
