"""Opening files where it belongs. See files.pyx."""


cpdef bint may_use_threads() noexcept
cdef object opened(object original, tuple args, dict kwargs, object path, object dir_fd)
cpdef bint is_slow(int fd) except -1
cdef object tried_on(int fd, object key, object function, tuple args, dict kwargs)
