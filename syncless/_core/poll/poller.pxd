"""The contract between the loop and the operating system's way to wait for descriptors. See poller.pyx."""

from libc.stdint cimport int64_t, uint32_t
from posix.stat cimport struct_stat

cdef enum:
    READ = 1
    WRITE = 2
    HANGUP = 4      # the peer will send no more, or the descriptor failed; only in events

cdef struct PollEvent:
    int fd
    uint32_t gen    # the generation that arm() was given: an event of an older one is stale
    int bits        # READ | WRITE | HANGUP; an error counts as all
    int disarmed    # those of them that will not be reported again until the next arm()


cdef class Poller:
    cdef readonly str name
    cdef readonly int wake_fd       # a byte written here makes wait() return
    cdef bint lost                  # its descriptors may not be its own any more: the loop looks
    cdef int open(self) except -1
    cdef int open_wake_pipe(self) except -1
    cdef int drain_wake_pipe(self) noexcept nogil
    cdef void close_wake_pipe(self) noexcept
    cdef int wake_read
    cdef struct_stat pipe
    cdef bint is_of_pipe(self, int fd) noexcept nogil
    cdef int arm(self, int fd, uint32_t gen, int bits) except -1
    cdef int disarm(self, int fd) noexcept
    cdef int forget(self, int fd) noexcept
    cdef int wait(self, PollEvent* events, int room, int64_t timeout) except -1
    cdef void wake(self) noexcept nogil
    cdef bint is_whole(self) noexcept
    cdef void close(self) noexcept


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


cdef class SelectPoller(Poller):
    cdef dict armed         # fd -> (gen, bits), each forgotten when reported
