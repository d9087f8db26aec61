from syncless._core.wait.waitqueue cimport WaitQueue


cdef class Waiters:
    """The tasklets that wait for one object."""
    cdef WaitQueue queue
    cdef Py_ssize_t count           # tasklets in the queue or about to try


cdef Waiters join_waiters(object thing)
cdef int leave_waiters(object thing, Waiters waiters) except -1
cdef int wake_first(object thing) except -1
