"""Application: the seam between a connection and the code that answers its requests.

A kind of application (WSGI is one) is a subclass. A connection gives it a request head that
RequestHeads.scan() has found and gets the exchange in which the application answers; the kind decides what it
makes of the head.
"""

from syncless._core.loop cimport Loop
from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Origin
from syncless.http.requestheads cimport RequestHeads
from syncless.http.wire cimport head


cdef class Application:
    """Application(most): remembers the heads of that many connections.

    exchange()   one for the head at `data`: no allocation may come between RequestHeads.scan() and the call,
                 because it may run a finaliser that switches to another connection. None: this request is not
                 the application's, nor is its connection from now on
    pass_on()    gives such a connection away, with its bytes; here it is closed afterwards
    take_back()  an exchange has ended and has no other owner: it may be used again, for the same head if it
                 comes from the same connection, whose descriptor is `fd`; -1: the connection is closed
    close()      the server has stopped: nothing is kept any more
    """

    def __init__(self, int most=0):
        self.heads = RequestHeads(most)

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found):
        raise NotImplementedError

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return 0

    cdef int pass_on(self, Loop loop, const Origin* origin) except -1:
        return 0

    def close(self) -> None:
        """Lets go of the objects kept for later requests."""
