from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange


cdef class Upgrade:
    cdef readonly Exchange request
    cdef Peer peer(self)
