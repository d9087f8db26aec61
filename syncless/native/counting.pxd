from libc.stdint cimport int64_t

from syncless.http.counters cimport Counters
from syncless.native.threads cimport server

cdef int64_t total_of(const server* of, int at) noexcept
cdef int add_new(const server* of, int64_t* collected, Counters counters) except -1
