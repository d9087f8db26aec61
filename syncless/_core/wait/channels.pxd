from syncless._core.scheduler cimport Meeting
from syncless._core.wait.waitqueue cimport WaitQueue


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
