from syncless._core.poll.poller cimport Poller

cdef class SelectPoller(Poller):
    cdef dict armed         # fd -> (gen, bits), each forgotten when reported
