"""What was thrown at a tasklet and is not raised yet. See thrown.pyx."""


cdef class Thrown:
    cdef object exception           # None once it has been raised


cdef object added(object pending, object thrown)
cdef object added_first(object pending, object thrown)
cdef object without(object pending, object thrown)
cdef object without_first(object pending)
cdef object first_of(object pending)
cdef list all_of(object pending)
