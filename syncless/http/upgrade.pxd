from syncless.http.peer cimport Peer
from syncless.http.request cimport Request


cdef class Upgrade:
    cdef readonly Request request
    cdef Peer peer(self)
