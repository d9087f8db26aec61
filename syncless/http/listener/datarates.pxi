"""DataRates: how fast a client takes a response for which the server has to wait.

A DataRate exists from the first moment at which the kernel takes no more until the response is sent or the
connection closed, so a client that keeps up costs nothing. Fact: the kernel tells of room in a socket only
when a third of its buffer is free, which may be a megabyte. Danger: a client that reads 50 kB each second
seems to stand still for twenty. Decision: the bytes that wait in the socket are asked for (SIOCOUTQ), every
few seconds. Price: a system call when a client has made us wait for longer than Limits.write_grace_seconds.
Where there is none, what the kernel takes counts. Test:
tests/http/test_client_limits.py::test_slow_client_goes_on_if_it_may
"""

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


cdef class DataRate:
    """Of one client."""

    cdef void check(self, int fd) noexcept:
        data_rate_check(&self.state, unsent(fd), monotonic_ns())


@cython.final
cdef class DataRates:
    """Of a listener's clients that are slow to take a response, by descriptor."""

    def __cinit__(self, Loop loop not None):
        self.loop = loop
        self.by_fd = {}

    cdef int stalled(self, int fd, Py_ssize_t more) except -1:
        """The client takes no more now: a wait begins, or goes on after it has taken `more` bytes."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None:
            self.by_fd[fd] = rate = DataRate()
            self.count += 1
            rate.state.given = unsent(fd)
            rate.state.progress = self.loop.clock.now
        else:
            rate.state.given += more
        if rate.state.since == 0:
            rate.state.since = self.loop.clock.now
        return 0

    cdef int rested(self, int fd) except -1:
        """The wait is over."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is not None and rate.state.since:
            rate.state.waited += monotonic_ns() - rate.state.since
            rate.state.since = 0
        return 0

    cdef int sent_more(self, int fd, Py_ssize_t n) except -1:
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is not None:
            rate.state.given += n
        return 0

    cdef int forget(self, int fd) except -1:
        """The response is sent, or the connection closed."""
        if self.by_fd.pop(fd, None) is not None:
            self.count -= 1
        return 0

    cdef bint too_slow(self, int fd) except -1:
        """Return whether the client has taken too little; asks the kernel where that may be so."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None or not data_rate_counts(&rate.state, self.limits, monotonic_ns()):
            return False
        rate.check(fd)
        return data_rate_is_too_slow(&rate.state, self.limits, monotonic_ns())

    cdef bint may_wait(self, int fd) except -1:
        """Return whether a wait whose client is checked now may go on."""
        cdef DataRate rate = self.by_fd.get(fd)
        if rate is None:
            return False
        rate.check(fd)
        return data_rate_may_wait(&rate.state, self.limits, monotonic_ns())
