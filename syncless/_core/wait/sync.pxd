from libc.stdint cimport int64_t, uint64_t

from syncless._core.wait.waitqueue cimport WaitQueue

cdef int wait_for_lock(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1


cdef class Event:
    cdef bint flag
    cdef WaitQueue waiters
    cdef list callbacks
    cdef object __weakref__


cdef class Semaphore:
    cdef readonly Py_ssize_t value          # units that are free
    cdef readonly uint64_t holder  # serial number of the tasklet that got the last unit; 0 if no tasklet did
    cdef WaitQueue waiters
    cdef object __weakref__
    cdef bint acquire_unit(self, bint blocking, object timeout) except -1
    cdef int release_unit(self) except -1


cdef class Lock(Semaphore):
    pass
