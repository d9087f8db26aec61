"""A connection of HTTP/2. See session.pyx."""

from libc.stdint cimport uint32_t

from syncless._core.loop cimport Loop
from syncless.http.application cimport Sessions
from syncless.http2.stream cimport Frames


cdef class HTTP2(Sessions):
    cdef bint cleartext             # a connection without TLS may begin with the preface
    cdef int streams                # that a connection has at most


cdef class HTTP2Session(Frames):
    cdef int open(self) except -1
    cdef bint take_frames(self, Loop loop) except -1
    cdef int act(self, Loop loop) except -1
    cdef int keep_time(self) except -1
    cdef int say_goodbye(self, uint32_t error) except -1
    cdef list streams(self)
