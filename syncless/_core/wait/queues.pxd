"""Queues and channels, for native callers. See queues.pyx."""

from syncless._core.scheduler cimport Meeting
from syncless._core.wait.waitqueue cimport WaitQueue


cdef class Queue:
    cdef readonly Py_ssize_t maxsize        # 0: no bound
    cdef object items                       # collections.deque, or what does the same in another order
    cdef Py_ssize_t count
    cdef Py_ssize_t accepted                # items that have been let in, or handed over, since the beginning
    cdef Py_ssize_t returned  # of the items, how many at the front were given to tasklets that were killed
    cdef WaitQueue getters                  # wait for an item: only while there is none
    cdef WaitQueue putters                  # wait for room: their items are in tasklet.value
    cdef object __weakref__
    cdef bint has_room(self) noexcept
    cdef bint hand_over(self, object item) except -1
    cdef int let_in(self, object item) except -1
    cdef int admit(self) except -1
    cdef int complete_admission(self, object item) except -1
    cdef int undo_admission(self) except -1


cdef class PriorityQueue(Queue):
    cdef Py_ssize_t reserved                # places for items that are being compared


cdef class JoinableQueue(Queue):
    cdef Py_ssize_t finished                # of those that were accepted
    cdef WaitQueue joiners


cdef class Channel(Meeting):
    cdef WaitQueue senders                  # at most one of the two is not empty
    cdef WaitQueue receivers
    cdef object kept  # deque of values whose senders have gone on, or None; then no receiver waits
    cdef readonly Py_ssize_t balance  # senders that wait and values kept, or minus the receivers that wait
    cdef readonly bint closed
    cdef object __weakref__
    cdef int hand_over(self, object value, object exception, object timeout) except -1
    cdef int sent(self, object value) except -1
    cdef object received(self, object value)
    cdef int pass_on(self, object value) except -1
    cdef object _take_kept(self)
