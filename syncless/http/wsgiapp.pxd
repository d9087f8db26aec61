from syncless.http.application cimport Application
from syncless.http.environ cimport EnvironMaker
from syncless.http.peer cimport Peer
from syncless.http.request cimport Request
from syncless.http.scanner cimport head


cdef class WSGIApplication(Application):
    cdef object call                # the application itself
    cdef EnvironMaker environs
    cdef object forward             # None, or called with the environ of a trusted peer's request
    cdef object websocket           # None, or makes what an application finds as environ["wsgi.websocket"]
    cdef Request spare              # the last request that has ended, to be used again

    cdef Request fill(self, Request request, Peer connection, const char* data, head* found)
