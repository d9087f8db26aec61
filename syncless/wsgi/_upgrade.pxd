from syncless.wsgi._peer cimport Peer
from syncless.wsgi._request cimport Request


cdef class Upgrade:
    cdef readonly Request request
    cdef Peer peer(self)
