from libc.stdint cimport int64_t, uint8_t, uint32_t

from syncless.http.listener cimport Listener
from syncless.http.stream cimport Stream

cdef enum Discarded:
    ALL_FOR_NOW         # more makes an event
    ENOUGH_FOR_NOW      # there may be more, of which no event tells
    THE_LAST            # the client has closed, or sent more than it may

cdef struct Linger:     # embedded in its owner
    uint32_t bytes      # thrown away
    uint8_t heard       # some came since the last look
    uint8_t looks       # that were taken at it

cdef Discarded discard(Stream* stream, Linger* linger, Py_ssize_t most) noexcept
cdef bint too_many_linger(Listener listener) noexcept
cdef bint may_linger(Linger* linger, Listener listener) noexcept
