"""From a request head to the call of a WSGI application. See application.pyx."""

from libc.stdint cimport uint64_t

from syncless.apps.wsgi.input cimport Input
from syncless.http.exchange cimport Application, Exchange
from syncless.http.peer cimport Incoming
from syncless.http.request cimport Request
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire.wire cimport head


cdef class StartResponse:
    cdef WSGIExchange exchange      # None: the response has ended
    cdef Write write


cdef class Write:
    cdef WSGIExchange exchange      # None: the response has ended


cdef class EnvironRequest(Request):     # `values` is the environ
    pass


cdef class WSGIExchange(Exchange):
    cdef object call                # the application
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


cdef class WSGIApplication(Application):
    cdef object call                # the application itself
    cdef EnvironMaker environs
    cdef object forward             # None, or called with a trusted peer's request
    cdef object websocket           # None, or makes what an application finds as environ["wsgi.websocket"]
    cdef dict pages                 # None, or other applications by their PATH_INFO
    cdef bint portless              # the socket has no port

    cdef WSGIExchange fill(self, WSGIExchange exchange, const Incoming* incoming)


cdef class EnvironMaker:
    cdef readonly dict template         # the keys that all requests of a server share
    cdef RequestHeads heads             # where copies of environs are kept
    cdef object forward
    cdef Py_ssize_t prefix_size         # characters at the begin of each path that are not PATH_INFO's
    cdef char forwarding[256]           # 1: only a trusted peer may send the known name, 2: nobody may
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query, last_uri

    cdef dict make(self, const Incoming* incoming)
    cdef dict fields(self, const char* data, const head* found, bint trusted)
    cdef str uri(self, const char* data, const head* found)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
