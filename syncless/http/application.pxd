from syncless.http.exchange cimport Exchange
from syncless.http.peer cimport Peer
from syncless.http.requestheads cimport RequestHeads
from syncless.http.scanner cimport head


cdef class Application:
    cdef readonly RequestHeads heads    # of the connections that it answers

    cdef Exchange exchange(self, Peer connection, const char* data, head* found)
    cdef int take_back(self, Exchange exchange, int fd) except -1
