"""Application: the seam between a connection and the code that answers its requests.

A kind of application (WSGI is one) is a subclass. A connection gives it a request head that Heads.scan() has
found and gets the exchange in which the application answers; the kind decides what it makes of the head.
"""

from syncless.http.heads cimport Heads
from syncless.http.peer cimport Peer
from syncless.http.request cimport Request
from syncless.http.scanner cimport head


cdef class Application:
    """Application(most): remembers the heads of that many connections.

    exchange()   one for the head at `data`: no allocation may come between Heads.scan() and the call, because
                 it may run a finaliser that switches to another connection
    take_back()  an exchange has ended and nobody else has it: it may be used again, for the same head if it
                 comes from the same connection, whose descriptor is `fd`; -1: the connection is closed
    close()      the server has stopped: nothing is kept any more
    """

    def __init__(self, int most=0):
        self.heads = Heads(most)

    cdef Request exchange(self, Peer connection, const char* data, head* found):
        raise NotImplementedError

    cdef int take_back(self, Request request, int fd) except -1:
        return 0

    def close(self) -> None:
        """Lets go of what is kept for requests to come."""
