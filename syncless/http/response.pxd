from libc.stdint cimport int64_t

from syncless._core.tasklet cimport Tasklet
from syncless.http.buffers cimport Buffer
from syncless.http.peer cimport Peer
from syncless.http.listener cimport Listener


cdef class StartResponse:
    cdef Response response
    cdef Write write


cdef class Write:
    cdef Response response


cdef class Response(Tasklet):
    cdef Peer peer
    cdef Listener listener
    cdef bint head_only             # HEAD
    cdef bint http_1_0
    cdef bint keep_alive
    # the response, as far as the application has told
    cdef object status              # a str, or None
    cdef object headers             # the list given with it, where the access log wants some of it
    cdef int code
    cdef Buffer head                # its head, but for what frames the body
    cdef bytes recalled  # instead, with the empty line at its end, where it is that of the last response
    cdef bint app_closes            # it has set Connection: close
    # and as far as it is on its way
    cdef bint committed             # the head is in the buffer or beyond
    cdef bint bodiless              # HEAD, 1xx, 204, 205, 304
    cdef bint chunked
    cdef bint complete              # all of the body is in the buffer or beyond
    cdef bint upgraded  # the connection speaks another protocol now: nothing is an HTTP response any more
    cdef int64_t length             # Content-Length, or -1
    cdef int64_t sent               # bytes of the body given to the buffer or beyond

    cdef int accept_head(self, object status, object headers, object exc_info) except -1
    cdef int commit(self, int64_t known_length) except -1
    cdef int put(self, object data, bint last) except -1
    cdef int end(self) except -1
    cdef int send_wrapped_file(self, object wrapper) except -1
