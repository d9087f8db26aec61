"""Whether a part of a file lies in memory. See pagecache.pyx."""

from libc.stdint cimport int64_t

cdef bint lies_in_memory(int fd, int64_t offset, int64_t count) noexcept
