"""The table of contents of callbacks.pyx."""

from syncless.asyncio.descriptors cimport Descriptors
from syncless.asyncio.rounds cimport Rounds


cdef class Callbacks:
    cdef Rounds rounds
    cdef Descriptors descriptors
