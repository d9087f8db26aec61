"""The result of poll(2) for one descriptor at this moment, without waiting."""

from syncless._core.poll.poller cimport READ, WRITE

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE                 /* POLLRDHUP */
    #endif
    #include <poll.h>
    #include <sys/socket.h>

    #ifndef SYNCLESS_NOW
    #define SYNCLESS_NOW
    static inline int syncless_events_now(int fd, int asked) {
        struct pollfd one = {fd, (short) asked, 0};
        int found = poll(&one, 1, 0);
        return found > 0 ? one.revents : found < 0 ? POLLERR : 0;
    }

    static inline int syncless_has_hung_up(int fd) {
    #ifdef POLLRDHUP
        return syncless_events_now(fd, POLLRDHUP) != 0;
    #else
        char byte;
        return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    #endif
    }
    #endif
    """
    int POLLIN, POLLOUT, POLLERR, POLLHUP
    int events_now "syncless_events_now" (int fd, int asked) noexcept nogil
    # Whether the other end sends no more, however much of what it has sent is still to be read.
    bint has_hung_up "syncless_has_hung_up" (int fd) noexcept nogil


cdef inline bint is_ready(int fd, int bit) noexcept nogil:
    """Whether a call in that direction (READ or WRITE) would not wait. A descriptor that has failed is ready:
    the call meets the error."""
    return events_now(fd, POLLIN if bit == READ else POLLOUT) != 0


cdef inline bint has_failed(int fd) noexcept nogil:
    """Whether a socket has an error, which is not taken away by the look."""
    cdef int found = events_now(fd, 0)
    return (found & POLLERR) != 0 and (found & POLLHUP) != 0
