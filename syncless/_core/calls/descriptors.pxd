"""Reading of any descriptor, for native callers. See descriptors.pyx."""

from posix.types cimport off_t

cdef object reading(int fd, Py_ssize_t length, off_t position)
