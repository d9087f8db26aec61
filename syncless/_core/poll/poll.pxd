from libc.stdint cimport uint32_t

from syncless._core.poll.poller cimport Poller

cdef extern from "<poll.h>":
    struct pollfd:
        int fd
        short events
        short revents

cdef class PollPoller(Poller):
    cdef pollfd* fds        # the armed ones, without gaps; the first is the wake-up pipe
    cdef uint32_t* gens     # of the same places
    cdef pollfd* copied     # those that a wait() reads
    cdef int used
    cdef int room           # of fds and gens
    cdef int copied_room
    cdef dict places        # fd -> its place
    cdef int grow(self) except -1
    cdef int armed(self, int place) noexcept
    cdef int set_armed(self, int place, int bits) noexcept
