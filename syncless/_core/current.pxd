"""The actions of a running tasklet. See current.pyx."""

cpdef bint may_park() noexcept
cdef int take_turns() except -1
cdef int take_turns_on(int fd, int bit) except -1
cpdef object next_thrown()
