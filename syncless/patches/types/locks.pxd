"""Locks of the interpreter, for native callers. See locks.pyx."""

from libc.stdint cimport int64_t

from syncless._core.wait.waitqueue cimport WaitQueue


cdef class Waiters:
    """The tasklets that wait for one object."""
    cdef WaitQueue queue
    cdef Py_ssize_t count           # tasklets in the queue or about to try


cdef Waiters join_waiters(object thing)
cdef int leave_waiters(object thing, Waiters waiters) except -1
cdef int wake_first(object thing) except -1


cdef object new_held_lock()
cdef bint take_lock(object lock, int64_t deadline) except -1
cdef int give_lock(object lock) except -1
cdef bint take_rlock(object lock, int64_t deadline) except -1
cdef bint owns_rlock(object lock) noexcept
cdef int take_turns_at_times() except -1
