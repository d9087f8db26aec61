from syncless._core.scheduler cimport BaseTasklet
from syncless.http.peer cimport Peer
from syncless.http.exchange cimport Exchange


cdef class BodySource(Peer):
    cdef BaseTasklet reader     # parked for bytes of a body
    cdef Exchange request        # the one that is queued or running

    cdef int wait_readable(self) except -1
    cdef int check_pace(self) except -1
