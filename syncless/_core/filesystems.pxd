"""Which file systems answer at once. See filesystems.pyx."""

from libc.stdint cimport int64_t


cdef class FileSystem:
    cdef readonly unsigned long long device
    cdef int trial          # quick answers in a row that are needed before calls are made directly
    cdef int sentence       # how many it will be the next time
    cdef bint slow          # its last answer was

    cdef bint direct(self) noexcept
    cdef void answered(self, int64_t ns) noexcept


cdef extern from *:
    """
    #ifndef SYNCLESS_KIND
    #define SYNCLESS_KIND
    typedef struct { int file, fifo; long long size; unsigned long long device; } SynclessKind;
    #endif
    """
    ctypedef struct Kind "SynclessKind":
        bint file               # a regular file, a directory or a block device: it is always ready, and may be slow all the same
        bint fifo
        int64_t size
        unsigned long long device


cdef int look(int fd, Kind* kind) noexcept
cdef int look_at(object path, int fd, Kind* kind) noexcept
cdef FileSystem of_descriptor(int fd)
cdef FileSystem of_device(unsigned long long device)
cdef FileSystem measured(int fd, const char* name)
cdef object of_path(object path, bint listed, object dir_fd)
cdef object in_pool(object function, tuple args, dict kwargs)
cdef object in_pool_of(object path, bint listed, object dir_fd, object function, tuple args, dict kwargs)
cdef bint any_slow() noexcept
cdef bint never() noexcept
