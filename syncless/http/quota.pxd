cdef class Quota:
    cdef long long left         # requests
    cdef object used_up         # called when there are none left

    cdef inline int take(self) except -1:
        """A request begins."""
        self.left -= 1
        if self.left == 0:
            self.used_up()
        return 0
