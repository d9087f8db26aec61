from libc.stdint cimport int64_t

from syncless.http.listener cimport Listener
from syncless.http.peer cimport Peer
from syncless.http.stream cimport Buffer


cdef class Response:
    cdef Listener listener
    # the request that it answers
    cdef Peer peer
    cdef bint head_only             # HEAD
    cdef int minor                  # of HTTP/1, or HTTP_2
    cdef bint keep_alive            # the connection can go on afterwards
    # its head
    cdef object status              # a str or a number; None: there is no head yet
    cdef object headers             # the list given with it, where the access log wants some of it
    cdef object fields              # the fields as pairs of bytes, where they were given as such
    cdef int code
    cdef Buffer head                # but for the fields that frame the body
    cdef bytes last_head            # instead, whole, where it is that of the last response
    cdef bint closes                # it said Connection: close
    cdef bint has_date, has_server  # its own
    # what of it is on its way
    cdef bint committed             # the head is in the connection's buffer or beyond
    cdef bint complete              # all of the body is
    cdef int framing            # NO_BODY and so on, see wire/reply.h
    cdef int64_t length             # Content-Length, or -1
    cdef int64_t body_sent          # bytes given to the connection

    cdef inline void forget(self) noexcept:
        """The request has ended."""
        if self.headers is not None:
            self.headers = None
        if self.last_head is not None:
            self.last_head = None
        if self.head.data != NULL:
            self.listener.buffers.release(&self.head)

    cdef int set_head(self, object status, list headers) except -1
    cdef int set_fields(self, int status, object fields) except -1
    cdef int commit(self, int64_t known_length) except -1
    cdef int frame(self, int64_t known_length) except -1
    cdef int put(self, object data, bint last) except -1
    cdef int put_file(self, int fd, int64_t offset, int64_t size) except -1
    cdef int end(self) except -1
    cdef int end_with(self, bytes trailers) except -1
    cdef bint takes_trailers(self) noexcept

    cdef int write_head(self, object status, list headers) except -1
    cdef int begin_head(self, object status) except -1
    cdef int add_header(self, object header_name, object header_value) except -1
    cdef int add_field(
        self, object header_name, const char* name, Py_ssize_t name_size,
        object header_value, const char* value, Py_ssize_t value_size) except -1
    cdef bint take_part_in_framing(self, int known, const char* value, Py_ssize_t size) except -1
    cdef int add_dates(self) except -1


cdef inline void begin_response(Response response, bint head_only, int minor, bint keep_alive) noexcept:
    """A request is to be answered."""
    response.head_only = head_only
    response.minor = minor
    response.keep_alive = keep_alive
    response.status = None
    response.committed = response.complete = False
    response.length = -1
    response.body_sent = 0
