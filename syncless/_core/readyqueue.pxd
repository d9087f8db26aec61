"""The ready queue's table of contents. See readyqueue.pyx."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t


cdef class ReadyQueue:
    cdef int64_t now                # ns; as fresh as the last poll, or a few short turns ago
    # a ring of owned references
    cdef PyObject** ring
    cdef size_t ring_head, ring_mask
    cdef readonly size_t ring_count
    # what is due before the next poll, owned
    cdef PyObject** pre_poll
    cdef Py_ssize_t pre_poll_count, pre_poll_capacity
    # fairness: a poll is due when either is used up
    cdef int turns_left
    cdef int unread                 # turns that still go without a reading of the clock
    cdef int64_t polled_at
    cdef int64_t slice_ns              # ns
    cdef bint polling               # asleep, with the GIL released

    cdef int push(self, object item) except -1
    cdef int before_poll(self, object item) except -1
    cdef object _pop(self)
    # defined by who sleeps in a poll
    cdef int rouse(self) except -1

    cdef void polled(self, int64_t now) noexcept
    cdef void share_equally(self, int64_t now, int items) noexcept
    cdef bint _poll_due(self) noexcept
