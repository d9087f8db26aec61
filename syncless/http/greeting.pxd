from syncless.http.peer cimport Peer

cdef enum:
    NOT_TLS = 3             # besides what a handshake can end in

cdef int greet_peer(Peer peer) except -2
