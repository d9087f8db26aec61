"""The table of contents of callbacks.pyx."""

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
