from syncless.http.exchange cimport Exchange
from syncless.http.listener cimport Listener
from syncless.http.peer cimport Origin

cdef enum Incoming:         # why there is no request; else the status with which it is refused
    NOT_YET = 0             # the client has to send more
    NEVER = -1              # it sends no more

cdef Exchange next_request(const Origin* origin, bint remember, int* outcome)
cdef int give_back(Listener listener, Exchange request, int fd) except -1
