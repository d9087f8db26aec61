from syncless.http.exchange cimport Exchange
from syncless.http.requestheads cimport RequestHeads
from syncless.http.peer cimport Origin
from syncless.http.scanner cimport head


cdef class Application:
    cdef readonly RequestHeads heads    # of the connections that it answers

    cdef Exchange exchange(self, const Origin* origin, const char* data, head* found)
    cdef int take_back(self, Exchange exchange, int fd) except -1
