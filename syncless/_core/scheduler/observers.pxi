"""Observers are called at each switch.

They count CPU time and bytecodes, record waits, and call Stackless's schedule callback; a loop without them
pays one comparison per switch.
"""


cdef class Observer:
    cdef int begins(self, object tasklet) except -1:
        """The tasklet starts, or goes on; also when it yielded and nobody else was ready."""
        return 0

    cdef int stops(self, object tasklet) except -1:
        """The tasklet yields, or has ended."""
        return 0


cdef class Recorder:
    cdef void waited(self, BaseTasklet tasklet, const char* why, object on) noexcept:
        """A wait of the tasklet is over, which runs again; an exception may be set."""


cdef class Observers(Observer):
    """Several of them, told in the order in which they joined."""

    def __init__(self, tuple observers=()):
        self.observers = observers

    cdef int begins(self, object tasklet) except -1:
        for observer in self.observers:
            (<Observer> observer).begins(tasklet)
        return 0

    cdef int stops(self, object tasklet) except -1:
        for observer in self.observers:
            (<Observer> observer).stops(tasklet)
        return 0

    cdef Observers joined_by(self, Observer one):
        return Observers((*self.observers, one))

    cdef Observers left_by(self, Observer one):
        return Observers(tuple([other for other in self.observers if other is not one]))
