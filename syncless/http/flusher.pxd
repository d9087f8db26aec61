from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Runnable

cdef enum:
    FLUSH_COUNT = 8             # owners that are flushed without waiting for the end of the turn
    FLUSH_AFTER = 500000        # ns after which the next one is

# sends what the owner has to send; may add further owners
ctypedef int (*flush_t)(Loop loop, object owner) except -1

cdef class Flusher(Runnable):
    cdef Loop loop
    cdef flush_t flush
    cdef PyObject* pending[FLUSH_COUNT]     # owned; never full between two calls
    cdef int count
    cdef int64_t since                      # when the first of them was added, ns
    cdef int add(self, object owner) except -1
    cdef int flush_all(self) except -1
