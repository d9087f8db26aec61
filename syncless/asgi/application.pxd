from syncless.asgi.request cimport Request
from syncless.asgi.scope cimport ScopeMaker
from syncless.http.application cimport Application


cdef class ASGIApplication(Application):
    cdef object call                # the application itself
    cdef object tasks
    cdef object loop                # asyncio's
    cdef object state               # None, or what its lifespan has left for all requests
    cdef ScopeMaker scopes
    cdef Request spare              # the last request that has ended, to be used again
