"""The first step of a request's coroutine. See firststep.pyx."""

from syncless._core.cpython.layouts cimport TASK_MOST
from syncless.asyncio.dispatcher cimport Dispatcher, Handle


cdef class Relay


cdef class FirstStep:
    cdef Dispatcher dispatcher      # of the asyncio loop
    cdef object task                # that has not begun, or None
    cdef Handle step                # its first, as it has asked the loop for it
    cdef object list_it             # puts the task into asyncio.all_tasks(), and
    cdef object unlist              # takes it away; both are given
    cdef object entry
    cdef char before[TASK_MOST]     # the task as it was when it was made

    cdef object begin(self, object coroutine)
    cdef int make(self, object coroutine) except -1
    cdef int make_spare(self) except -1
    cdef bint is_untouched(self) except -1
    cdef object give_over(self, Relay relay)
    cdef object make_step(self)


cdef class Relay:
    cdef object task
    cdef object coroutine
    cdef bint waits                 # the coroutine has not ended
    cdef object result              # what it waits for, or has returned
    cdef object error               # that it has raised, or None
    cdef unsigned char cancelled    # the task's mark that cancel() was called
