from libc.stdint cimport int64_t, uint64_t

from syncless._core.loop cimport Loop
from syncless.http.body cimport Body
from syncless.http.input cimport Input
from syncless.http.response cimport Response, StartResponse


cdef class Request(Response):
    cdef object call                # the application
    cdef dict environ
    cdef uint64_t environ_version   # as the application got it
    cdef int64_t head_serial        # of which remembered head it came, or 0
    cdef Input input
    cdef Body body                  # the input's
    cdef StartResponse start
    cdef object start_response      # the callable that the application gets
    cdef bint too_large             # the body says that it is larger than allowed
    cdef object handler             # of another protocol, if the client asks for one
    cdef bint interruptible         # ClientGone is raised in it when the client leaves
    cdef int64_t started            # ns
    cdef int64_t own_id             # 0: nobody has asked for it
    cdef int64_t body_waited        # ns that it has waited for its body
    cdef int64_t body_received      # bytes that came meanwhile

    cdef bint reusable(self) noexcept
    cdef bint left(self) noexcept
    cdef int serve(self, Loop loop) except -1
    cdef int renew_start(self) except -1
    cdef int renew_input(self) except -1
    cdef int respond(self) except -1
    cdef int respond_in_time(self) except -1
    cdef int conclude(self, Loop loop, BaseException failure) except -1
    cdef int fail(self, Loop loop, BaseException error) except -1
    cdef int end_in_child(self, BaseException failure) except -1
    cdef BaseException end_upgrade(self, BaseException failure)
    cdef int answer(self, int status, BaseException error) except -1
    cdef int drain(self) except -1
    cdef int log_failure(self, BaseException error) except -1
