"""The cases of select(): stand-ins for the tasklet in the queue of each thing. See select.pyx."""

from libc.stdint cimport int64_t

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet, Meeting, StandIn
from syncless._core.timers cimport Timer
from syncless._core.wait.waitqueue cimport WaitQueue


cdef class Case(StandIn):
    """One of the things that select() waits for. A new kind defines ready() and take(), and what it does
    otherwise differently."""
    cdef readonly object source
    cdef Selection selection
    cdef Py_ssize_t place               # in the list of cases
    cdef WaitQueue* queue               # the one in which it stands
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


cdef class EventCase(Case):
    pass


cdef class TaskletCase(Case):
    pass


cdef class SemaphoreCase(Case):
    pass


cdef class GetCase(Case):
    pass


cdef class PutCase(Case):
    cdef object item


cdef class ReceiveCase(Case):
    pass


cdef class SendCase(Case):
    cdef object item


cdef class FdCase(Case):
    cdef int fd
    cdef int bit
    cdef bint buffered                  # TLS has data already that the descriptor does not show any more


cdef class AfterCase(Case):
    cdef Timer alarm
    cdef int64_t when


cdef const char* IN_SELECT
