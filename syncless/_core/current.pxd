"""The actions of a running tasklet. See current.pyx."""

cpdef bint may_park() noexcept
cdef int take_turns() except -1
cpdef object next_thrown()
