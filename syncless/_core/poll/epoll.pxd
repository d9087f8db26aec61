from syncless._core.poll.poller cimport Poller

cdef class EpollPoller(Poller):
    cdef int epoll_fd
    cdef bint coarse        # the kernel has no epoll_pwait2: milliseconds, rounded up
