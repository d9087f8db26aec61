from syncless.http.application cimport Application
from syncless.http.peer cimport Origin
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire cimport head
from syncless.wsgi.request cimport Request


cdef class WSGIApplication(Application):
    cdef object call                # the application itself
    cdef EnvironMaker environs
    cdef object forward             # None, or called with the variables of a trusted peer's request
    cdef object websocket           # None, or makes what an application finds as environ["wsgi.websocket"]
    cdef dict pages                 # None, or other applications by their PATH_INFO
    cdef bint portless              # the socket has no port
    cdef Request spare              # the last request that has ended, to be used again

    cdef Request fill(self, Request request, const Origin* origin, const char* data, head* found)


cdef class EnvironMaker:
    cdef readonly dict template         # the keys that all requests of a server share
    cdef RequestHeads heads             # where copies of environs are kept
    cdef list keys                      # environ keys of the known names, by index
    cdef char forwarding[256]           # whether only a trusted peer may send the known name
    cdef list last                      # the last value of each known name: clients repeat themselves
    cdef object last_path_raw
    cdef str last_path
    cdef str last_query, last_uri

    cdef dict make(self, const char* data, head* found, int fd, object remote_addr, int remote_port,
        bint trusted)
    cdef dict fields(self, const char* data, head* found, bint trusted)
    cdef str uri(self, const char* data, head* found)
    cdef str path(self, const char* raw, Py_ssize_t size, bint escaped)
