from libc.stdint cimport uint32_t, uint64_t

from syncless._core.poll.poller cimport Poller

cdef class EpollPoller(Poller):
    cdef int epoll_fd
    cdef int spare          # a ready descriptor, made when the pipe has gone; or -1
    cdef int set(self, int action, int fd, uint32_t events, uint64_t data) noexcept nogil
    cdef bint is_ours(self) noexcept
    cdef bint coarse        # the kernel has no epoll_pwait2: milliseconds, rounded up
