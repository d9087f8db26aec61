"""How fast a client takes an answer for which the server has to wait.

A Pace exists from the first moment at which the kernel takes no more until the answer is sent or the
connection closed, so a client that keeps up costs nothing. See Limits.write_rate, Limits.write_seconds, and
peer.pyx, which sends.

Fact: the kernel tells of room in a socket only when a third of its buffer is free, which may be a megabyte.
Danger: a client that reads 50 kB each second seems to stand still for twenty. Decision: the bytes that wait
in the socket are asked for (SIOCOUTQ), every few seconds. Price: a system call when a client has made us wait
for longer than Limits.write_grace_seconds. Where there is none, what the kernel takes counts. Test:
tests/wsgi/test_client_limits.py::test_slow_client_goes_on_if_it_may
"""

from libc.stdint cimport int64_t

from syncless._core.clock cimport monotonic_ns
from syncless.http.listener cimport Listener

cdef extern from *:
    """
    #include <sys/ioctl.h>
    #ifdef __linux__
    #include <linux/sockios.h>
    #endif

    /* Bytes that the socket holds for a peer that has not acknowledged them. */
    static int syncless_unsent(int fd) {
        int bytes = 0;
    #ifdef SIOCOUTQ
        if (ioctl(fd, SIOCOUTQ, &bytes) < 0)
            return 0;
    #endif
        return bytes;
    }
    """
    int unsent "syncless_unsent" (int fd) nogil


cdef class Pace:
    """Of one connection; Listener.paces has them by descriptor."""

    cdef int look(self, int fd) except -1:
        cdef int64_t taken = self.given - unsent(fd)
        if taken > self.taken:
            self.taken = taken
            self.progress = monotonic_ns()
        return 0


cdef int stalled(Listener listener, int fd) except -1:
    """The client takes no more now: a wait begins, or goes on."""
    cdef Pace pace = listener.paces.get(fd)
    if pace is None:
        listener.paces[fd] = pace = Pace()
        listener.slow += 1
        pace.given = unsent(fd)
        pace.progress = listener.loop.now
    if pace.since == 0:
        pace.since = listener.loop.now
    return 0


cdef int forget_pace(Listener listener, int fd) except -1:
    """The answer is sent, or the connection closed."""
    if listener.paces.pop(fd, None) is not None:
        listener.slow -= 1
    return 0


cdef int rested(Listener listener, int fd) except -1:
    """The wait is over."""
    cdef Pace pace = listener.paces.get(fd)
    if pace is not None and pace.since:
        pace.waited += monotonic_ns() - pace.since
        pace.since = 0
    return 0


cdef int sent_more(Listener listener, int fd, Py_ssize_t n) except -1:
    cdef Pace pace = listener.paces.get(fd)
    if pace is not None:
        pace.given += n
    return 0


cdef bint too_slow(Listener listener, int fd) except -1:
    """Whether it has taken less than Limits.write_rate on average, over a time longer than
    Limits.write_grace_seconds."""
    cdef Pace pace = listener.paces.get(fd)
    cdef double waited
    if pace is None or listener.limits.write_rate == 0:
        return False
    waited = (pace.waited + (monotonic_ns() - pace.since if pace.since else 0)) / 1e9
    if waited <= listener.limits.write_grace_seconds:
        return False
    pace.look(fd)
    return pace.taken < listener.limits.write_rate * waited


cdef bint may_wait(Listener listener, int fd) except -1:
    """Whether a wait at whose client we look now may go on: that happens more often than every
    Limits.write_seconds."""
    cdef Pace pace = listener.paces.get(fd)
    if pace is None:
        return False
    pace.look(fd)
    return monotonic_ns() - pace.progress < listener.limits.write_seconds * 1e9 and not too_slow(listener, fd)
