"""An exception on its way to a tasklet. See thrown.pyx."""


cdef class Thrown:
    cdef object exception           # None once it has been raised
