from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.tasklet cimport Tasklet
from syncless.wsgi._input cimport Input
from syncless.wsgi._peer cimport Peer
from syncless.wsgi._service cimport Buffer, Service


cdef class StartResponse:
    cdef Request request
    cdef Write write


cdef class Write:
    cdef Request request


cdef class Request(Tasklet):
    cdef Peer peer
    cdef Service service
    cdef dict environ
    cdef Input input
    cdef StartResponse start
    cdef object start_response      # the callable that the application gets
    cdef bint head_only             # HEAD
    cdef bint http_1_0
    cdef bint keep_alive
    cdef bint too_large             # the body says that it is larger than allowed
    # the response, as far as the application has told
    cdef object status              # a str, or None
    cdef int code
    cdef Buffer head                # its head, but for what frames the body
    cdef bint app_closes            # it has set Connection: close
    # and as far as it is on its way
    cdef bint committed             # the head is in the buffer or beyond
    cdef bint bodiless              # HEAD, 1xx, 204, 304
    cdef bint chunked
    cdef bint complete              # all of the body is in the buffer or beyond
    cdef int64_t length             # Content-Length, or -1
    cdef int64_t sent               # bytes of the body given to the buffer or beyond
    cdef int64_t started            # ns

    cdef int serve(self, Loop loop) except -1
    cdef int renew_start(self) except -1
    cdef int respond(self) except -1
    cdef int accept_head(self, object status, object headers, object exc_info) except -1
    cdef bint recall_head(self, object status, list headers) except -1
    cdef int remember_head(self, object status, list headers) except -1
    cdef int commit(self, int64_t known_length) except -1
    cdef int put(self, object data, bint last) except -1
    cdef int end(self) except -1
    cdef int fail(self, Loop loop, BaseException error) except -1
    cdef int answer(self, int status, BaseException error) except -1
    cdef int drain(self) except -1
    cdef int log_failure(self, BaseException error) except -1
    cdef int send_wrapped_file(self, object wrapper) except -1
