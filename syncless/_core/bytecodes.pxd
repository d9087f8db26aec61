"""A limit to the bytecodes of a turn. See bytecodes.pyx."""

from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Observer


cdef class BytecodeLimit(Observer):
    cdef readonly int64_t limit
    cdef readonly bint in_all           # for all turns together, not for each
    cdef int64_t left
    cdef Loop loop
    cdef dict known                     # code that is ready to be counted
    cdef int exceeded(self, BaseTasklet tasklet) except -1
