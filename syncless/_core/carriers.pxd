"""Carriers: greenlets on which tasklets run. See carriers.pyx."""

from cpython.object cimport PyObject

from syncless._core.cpython.greenlet cimport PyGreenlet, Step


cdef class Carriers:
    cdef object loop                # for which they run; None when all have ended
    cdef Step step                  # a carrier calls it again and again
    cdef Step step_failed
    cdef PyGreenlet** idle          # owned
    cdef Py_ssize_t idle_count, idle_capacity
    cdef Py_ssize_t count           # of all that have not ended
    cdef (PyGreenlet*)[2] starters  # owned
    cdef PyGreenlet* main           # owned: the thread's own greenlet

    cdef int begin(self, object loop, Step step, Step step_failed) except -1
    cdef PyGreenlet* next_leader(self) noexcept
    cdef int go_idle(self, PyGreenlet* target) except -1
    cdef int end_one(self) except -1
    cdef int end(self) except -1


cdef int failed() except -1
