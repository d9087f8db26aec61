from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Meeting, StandIn
from syncless._core.wait.waitqueue cimport WaitQueue


cdef class Case(StandIn):
    """One of the things that select() waits for. A new kind defines ready() and take(), and what it does
    otherwise differently."""
    cdef readonly object source
    cdef Selection selection
    cdef Py_ssize_t place               # in the list of cases
    cdef WaitQueue* line                # the queue in which it stands
    cdef bint counted                   # it entered it, and has not left
    cdef bint ready(self) noexcept
    cdef object take(self)
    cdef int enter(self) except -1
    cdef int leave(self) except -1
    cdef int unmet(self) except -1
    cdef object result(self, object value)
    cdef int undo(self, object value) except -1


cdef class Selection(Meeting):
    cdef BaseTasklet owner
    cdef list cases
    cdef Case winner
    cdef object value
