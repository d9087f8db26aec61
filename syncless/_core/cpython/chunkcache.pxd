"""Blocks for Python frames that are kept. See chunkcache.pyx."""

from libc.stdint cimport int64_t

cdef int64_t lower_mark(int64_t now) noexcept
