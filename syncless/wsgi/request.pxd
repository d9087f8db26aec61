from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from syncless.http.exchange cimport Exchange
from syncless.wsgi.input cimport Input


cdef class StartResponse:
    cdef Request request            # None: the response has ended
    cdef Write write


cdef class Write:
    cdef Request request            # None: the response has ended


cdef class Request(Exchange):
    cdef object call                # the application
    cdef dict environ
    cdef uint64_t environ_version   # as the application got it
    cdef Input input
    cdef StartResponse start
    cdef object start_response      # the callable that the application gets

    cdef int fill(self, dict environ) except -1
    cdef bint reusable(self) noexcept
    cdef int renew_input(self) except -1
    cdef int renew_start(self) except -1
    cdef int accept_head(self, object status, object headers, object exc_info) except -1
    cdef int put(self, object data, bint last) except -1
    cdef int tell_cut(self) except -1
    cdef int answer(self) except -1
    cdef int answer_parts(self, object parts) except -1
    cdef int answer_in_turn(self, object result) except -1
    cdef bint send_wrapped_file(self, object wrapper) except -1
