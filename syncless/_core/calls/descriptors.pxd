"""Reading and writing of any descriptor, for native callers. See descriptors.pyx."""

from posix.types cimport off_t

from syncless._core.calls.filesystems cimport FileSystem

cdef enum:
    PIECE = 4096            # bytes, PIPE_BUF: a ready pipe takes that many without blocking
    HERE = -1               # the position at which the description stands

# `system`: of a file, if it is known
cdef Py_ssize_t read_into(int fd, object owner, char* data, Py_ssize_t size, off_t position,
    FileSystem system=?) except -1
cdef object reading(int fd, Py_ssize_t length, off_t position, FileSystem system=?)
cdef Py_ssize_t writing(int fd, object data, off_t position, FileSystem system=?) except -1
