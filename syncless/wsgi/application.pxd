from syncless.http.application cimport Application
from syncless.http.peer cimport Origin
from syncless.http.scanner cimport head
from syncless.wsgi.environ cimport EnvironMaker
from syncless.wsgi.request cimport Request


cdef class WSGIApplication(Application):
    cdef object call                # the application itself
    cdef EnvironMaker environs
    cdef object forward             # None, or called with the variables of a trusted peer's request
    cdef object websocket           # None, or makes what an application finds as environ["wsgi.websocket"]
    cdef dict pages                 # None, or other applications by their PATH_INFO
    cdef Request spare              # the last request that has ended, to be used again

    cdef Request fill(self, Request request, const Origin* origin, const char* data, head* found)
