from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange


cdef class Upgrade:
    cdef readonly Exchange request
    cdef object handler         # of the other protocol, once it has begun
    cdef tuple expected         # exceptions that are no fault of the application then
    cdef Peer peer(self)
