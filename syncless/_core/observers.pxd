cdef class Observer:
    """Is told when tasklets of a loop go on and stop. It must not wait."""
    cdef int begins(self, object tasklet) except -1
    cdef int stops(self, object tasklet) except -1


cdef class Observers(Observer):
    cdef readonly tuple observers
    cdef Observers joined_by(self, Observer one)
    cdef Observers left_by(self, Observer one)
