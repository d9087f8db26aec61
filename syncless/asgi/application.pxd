from syncless.asgi.request cimport Request
from syncless.asgi.scope cimport ScopeMaker
from syncless.http.application cimport Application
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Origin
from syncless.http.wire cimport head


cdef class ASGIApplication(Application):
    cdef object call                # the application itself
    cdef object tasks
    cdef object loop                # asyncio's
    cdef object state               # None, or what its lifespan has left for all requests
    cdef ScopeMaker scopes
    cdef object limits
    cdef object websockets          # whether the library for them is installed; None: not known yet
    cdef Request spare              # the last request that has ended, to be used again

    cdef Exchange websocket(self, dict scope, const Origin* origin, const char* data, head* found)
