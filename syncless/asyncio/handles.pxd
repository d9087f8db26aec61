"""The table of contents of handles.pyx."""

from cpython.object cimport PyObject

from syncless._core.cpython.threadlocal cimport KeptLocals
from syncless._core.linked cimport LinkedList, Node
from syncless._core.loop cimport Loop
from syncless._core.timers cimport Timer

cdef class Calls


cdef class Handle:
    cdef Calls rounds
    cdef object callback            # None once it is cancelled
    cdef tuple args
    cdef object context             # contextvars.Context in which it is called
    cdef Handle after               # the next in the queue
    cdef bint is_cancelled
    cdef object source_traceback    # where it was made, in debug mode
    cdef object __weakref__

    cdef int fill(self, Calls rounds, object callback, tuple args, object context) except -1
    cdef PyObject* invoke(self) noexcept
    cdef int tell(self, object error) except -1
    cdef int done(self) except -1


cdef class TimerHandle(Handle):
    cdef Timer timer
    cdef double moment              # s, on the clock of loop.time()
    cdef Node place                 # in the list of timers


cdef class Calls:
    cdef object loop                # asyncio's
    cdef Loop engine                # while it runs
    cdef LinkedList timers
    cdef KeptLocals kept            # of callbacks that are no step of a task; or None
    cdef bint closed
    cdef bint debug

    cdef int append(self, Handle handle) except -1
    cdef int call(self, Handle handle) except -1
    cdef int add_timer(self, TimerHandle handle) except -1
    cdef int set_timer(self, TimerHandle handle) except -1
    cdef int close(self) except -1
