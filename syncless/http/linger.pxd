from syncless._core.loop cimport Loop
from syncless.http.peer cimport Peer

cdef int begin_lingering(Peer peer, Loop loop) except -1
cdef bint discard(Peer peer, Loop loop) except -1
cdef bint may_linger(Peer peer) noexcept
