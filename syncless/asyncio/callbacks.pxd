"""The table of contents of callbacks.pyx."""

from syncless._core.cpython.layouts cimport TASK_MOST
from syncless._core.loop cimport Loop, Watcher
from syncless.asyncio.dispatcher cimport Handle, Dispatcher


cdef class Descriptors
cdef class ReadyHandle


cdef class Descriptor(Watcher):
    cdef Descriptors descriptors
    cdef int fd
    cdef ReadyHandle reader
    cdef ReadyHandle writer

    cdef int due(self, ReadyHandle handle) except -1
    cdef int look(self, int bits) except -1
    cdef int awaited(self) noexcept
    cdef int arm(self) except -1
    cdef int leave_engine(self, Loop engine) except -1


cdef class ReadyHandle(Handle):
    cdef Descriptor descriptor
    cdef int bit                    # READ or WRITE
    cdef bint under_way             # it is in the queue, or runs


cdef class Descriptors:
    cdef Dispatcher dispatcher
    cdef dict by_number             # -> Descriptor

    cdef int follow(self, object number, ReadyHandle handle) except -1
    cdef bint leave(self, object number, int bit) except -1
    cdef int join_engine(self) except -1
    cdef int leave_engine(self, Loop engine) except -1


cdef class Callbacks:
    cdef Dispatcher dispatcher
    cdef Descriptors descriptors


cdef class Relay


cdef class FirstStep:
    cdef Dispatcher dispatcher      # of the asyncio loop
    cdef object task                # that has not begun, or None
    cdef Handle step                # its first, as it has asked the loop for it
    cdef set listed                 # behind asyncio.all_tasks(); None: it is another function's
    cdef object entry               # of the task in it
    cdef char before[TASK_MOST]     # the task as it was when it was made

    cdef object begin(self, object coroutine)
    cdef int make(self, object coroutine) except -1
    cdef int make_spare(self) except -1
    cdef int list_task(self) except -1
    cdef int unlist_task(self) except -1
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
