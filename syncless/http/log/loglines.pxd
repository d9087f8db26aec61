cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from syncless.http.request cimport Part, Request

cdef enum Kind:
    LITERAL         # the key's bytes
    PART            # of the request: the number
    FIELD           # of the request: the key is its name in lower case, the number its index
    VARIABLE        # of the request: the key is a variable of the application's, or of CGI and no part
    REQUEST_LINE
    FULL_PATH
    FULL_QUERY      # with its question mark
    STATUS
    BODY_BYTES      # bytes of the body, - for none
    BODY_BYTES_NUMBER
    STAMP           # [20/Nov/2026:15:19:52 +0000]
    STRFTIME        # the key is its format
    DURATION        # in the key's unit: an int of ns
    OF_EXCHANGE     # the key is an attribute of the exchange; seconds, a float, are written in us
    RESPONSE_FIELD  # the key is its name in lower case

cdef struct Atom:
    Kind kind
    PyObject* key           # owned by AccessLog.keys
    const char* text        # a LITERAL's, filled up to SHORT bytes
    Py_ssize_t size         # of the text, without the filling
    int number


@cython.final
cdef class AccessLog:
    cdef Atom* atoms
    cdef int count
    cdef list keys
    cdef readonly bint json
    cdef readonly bint wants_headers
    cdef char* data
    cdef size_t size, room
    cdef uint64_t switched              # Scheduler.switched since which no other tasklet has run
    cdef size_t line                    # where the one begins that is being put together
    cdef readonly long long dropped     # lines
    cdef readonly object something      # Event: a first line has come
    cdef readonly object full           # Event: it is time to write
    cdef int64_t second             # of the present stamp
    cdef object stamp
    cdef int log(self, Request request, object status, int64_t body_bytes, int64_t started, object headers,
        object exchange) except -1
    cdef str said(self, object value)
    cdef str text_of(self, Request request, Part part)
    cdef int grow(self, size_t size) except -1
    cdef char* room_for(self, size_t size) except NULL
    cdef int put_char(self, char c) except -1
    cdef int put_literal(self, Atom* atom) except -1
    cdef int put(self, const char* data, size_t size) except -1
    cdef int put_stamp(self, object text) except -1
    cdef int put_string(self, object text) except -1
    cdef int put_escaped(self, object text) except -1
    cdef int put_url(self, object text) except -1
    cdef int put_number(self, int64_t number) except -1
    cdef int put_none(self) except -1
    cdef Py_ssize_t put_good(self, object text, const char* good) except -1
    cdef int put_value(self, PyObject* values, PyObject* key) except -1
    cdef int put_told(self, object value) except -1
    cdef int put_request(self, Kind kind, Request request) except -1
    cdef int put_atom(self, Atom* atom, Request request, object status, int64_t body_bytes, int64_t started,
        object headers, object exchange) except -1
    cdef object time_stamp(self)
