"""Opening files where it belongs. See files.pyx."""

from syncless._core.calls.filesystems cimport FileSystem


cpdef bint may_use_threads() noexcept
cpdef int close_under_waiters(int fd) except -1
cdef object opened(object original, tuple args, dict kwargs, object path, object dir_fd)
cpdef bint is_slow(int fd) except -1
cdef bint asks_for_the_end(tuple args, Py_ssize_t whence) except -1
cdef object tried_on(int fd, object key, object function, tuple args, dict kwargs)
cdef object closed_by(FileSystem system, object key, object function, tuple args, dict kwargs)
