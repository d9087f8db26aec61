"""Application: the seam between a connection and the code that answers its requests.

A kind of application (WSGI is one) is a subclass. A connection gives it a request head that
RequestHeads.scan() has found and gets the exchange in which the application answers; the kind decides what it
makes of the head. A Session answers in place of an Exchange where a connection carries many requests at a
time.
"""


cdef class Application:
    """Application(most): remembers the heads of that many connections.

    exchange()   one for a request that has come: no allocation may come between RequestHeads.scan() and the
                 call, because it may run a finaliser that switches to another connection. None: this request
                 is not the application's, nor is its connection from now on
    pass_on()    gives such a connection away, with its bytes; here it is closed afterwards
    take_back()  an exchange has ended and has no other owner: it may be used again, for the same head if it
                 comes from the same connection, whose descriptor is `fd`; -1: the connection is closed
    let_go()     a connection closes, or another thread takes it: nothing of it is kept
    close()      the server has stopped: nothing is kept any more
    """

    def __init__(self, int most=0):
        self.heads = RequestHeads(most)
        self.spares = [None] * SPARES

    cdef Exchange exchange(self, const Incoming* incoming):
        raise NotImplementedError

    cdef int take_back(self, Exchange exchange, int fd) except -1:
        return 0

    cdef int pass_on(self, Loop loop, const Incoming* incoming) except -1:
        return 0

    cdef int let_go(self, int fd) except -1:
        return 0

    def close(self) -> None:
        """Let go of the objects kept for later requests."""
        self.spare_count = 0
        self.spares = [None] * SPARES


cdef class Session:
    """A connection that carries requests of its client by the frames of another protocol. Its connection
    tells it:

    live()       bytes may have come: it reads them, as far as it is its turn
    fill()       puts what there is to send behind that which is pending; the connection sends it
    sent_all()   that is gone
    expired()    the time to begin or to go on has passed
    lost()       the connection is closed
    stop()       the server stops, and the client should ask no more; `at_last`: it may not
    tell_stop()  as of an exchange
    has_an_end() whether a request, or the deadline of one, will end it
    interrupt()  the server waits no longer for the requests that run
    take_over()  it goes on with the response of a request that has ended (see Exchange.hold)
    """

    cdef int take_over(self, Watcher connection, bint chunked) except -1:
        return 0

    cdef int live(self, Loop loop) except -1:
        return 0

    cdef int fill(self, Loop loop) except -1:
        return 0

    cdef int sent_all(self, Loop loop) except -1:
        return 0

    cdef int expired(self, Loop loop) except -1:
        return 0

    cdef int lost(self, Loop loop) except -1:
        return 0

    cdef int interrupt(self, Loop loop) except -1:
        return 0

    cdef int stop(self, bint at_last) except -1:
        return 0

    cdef bint has_an_end(self) except -1:
        return True

    cdef int tell_stop(self, bint at_last) except -1:
        return 0


cdef class Sessions:
    """begin()   a session for a connection whose first bytes are no request; None: not for this one"""

    cdef Session begin(self, const Incoming* incoming):
        return None
