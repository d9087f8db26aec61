from syncless._core.poll.poller cimport Poller

cdef class KqueuePoller(Poller):
    cdef int kqueue_fd
    cdef int process            # that has opened it: a child has no kqueue of its parent
    cdef list broken            # (descriptor, generation): pipes without a reader, for the next wait()
    cdef int change(self, int fd, int filter, int flags, size_t gen) noexcept
