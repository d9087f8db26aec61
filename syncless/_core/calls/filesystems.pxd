"""Which file systems answer at once, and whether a part of a file lies in memory. See filesystems.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef class FileSystem:
    cdef readonly unsigned long long device
    cdef dict trials        # function -> Trial
    cdef int mute           # bits of READS and WRITES: RWF_NOWAIT is not for these here
    cdef int slow           # how many of them were slow, and have not been acquitted since
    cdef object share       # its threads

    cdef Trial trial_of(self, object function)


cdef enum:
    READS = 1
    WRITES = 2


cdef enum:
    TRIAL = 8               # quick answers in a row that are needed at first
    LONGEST_TRIAL = 1024
    SLOW_NS = 2_000_000     # an answer that takes longer is not a quick one
    LOCK_NS = 10_000_000    # a call in a thread may take that much longer: it has to get the GIL again


cdef bint is_quick(int64_t ns, bint in_thread) noexcept nogil


cdef class Trial:           # of one function on one file system
    cdef FileSystem system
    cdef int left           # quick answers in a row that are needed before calls are made directly
    cdef int sentence       # how many it will be the next time
    cdef bint slow

    cdef bint direct(self) noexcept
    cdef int answered(self, int64_t ns, bint in_thread) except -1


cdef extern from *:
    """
    #ifndef SYNCLESS_KIND
    #define SYNCLESS_KIND
    typedef struct { int file, fifo; long long size; unsigned long long device; } SynclessKind;
    #endif
    """
    ctypedef struct Kind "SynclessKind":
        # a regular file, a directory or a block device: it is always ready, and may be slow all the same
        bint file
        bint fifo
        int64_t size
        unsigned long long device


cdef int64_t begin_call() noexcept
cdef int64_t begin_in_thread() noexcept nogil
cdef int64_t took(int64_t started) noexcept nogil
cdef int look(int fd, Kind* kind) noexcept
cdef int look_at(object path, int fd, Kind* kind) noexcept
cdef FileSystem of_descriptor(int fd)
cdef int keep(int fd, object owner) except -1
cdef void forget(int fd) noexcept
cdef void forget_files() noexcept
cdef FileSystem kept(int fd, object owner)
cdef FileSystem of_device(unsigned long long device)
cdef int64_t fresh_ns(int fd) noexcept
cdef FileSystem of_path(object path, bint listed, object dir_fd)
cdef object in_pool(int fd, object function, tuple args, dict kwargs)
cdef object in_pool_of(object path, bint listed, object dir_fd, object key, object function, tuple args,
    dict kwargs)
cdef object tried(Trial trial, object function, tuple args, dict kwargs)
cdef PyObject* timed(int64_t started, Trial trial, object function, PyObject** args, size_t count,
    PyObject* names) except NULL
cdef bint any_slow() noexcept
cdef bint never() noexcept
cdef bint pools_all() noexcept


cdef bint lies_in_memory(int fd, int64_t offset, int64_t count) noexcept
cdef bint reads_at_once(FileSystem system, int fd, int64_t offset, int64_t count) except -1
