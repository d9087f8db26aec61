from syncless.http.heads cimport Heads
from syncless.http.peer cimport Peer
from syncless.http.request cimport Request
from syncless.http.scanner cimport head


cdef class Application:
    cdef readonly Heads heads       # of the connections that it answers

    cdef Request exchange(self, Peer connection, const char* data, head* found)
    cdef int take_back(self, Request request, int fd) except -1
