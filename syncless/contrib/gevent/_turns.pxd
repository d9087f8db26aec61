"""Whose turn it is: a hub's host, or a greenlet that goes on in its place. See _turns.pyx."""

from cpython.object cimport PyObject

from syncless._core.cpython.greenlet cimport PyGreenlet
from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport BaseTasklet
from syncless._core.tasklet cimport Tasklet
from syncless._core.wait.sync cimport Event


cdef class Turns:
    cdef readonly object hub
    cdef readonly Event called          # something is due
    cdef readonly dict running          # greenlets that have begun and not ended -> their tasklets
    cdef readonly Tasklet host
    cdef readonly object base           # the host's own greenlet; the hub runs on it
    cdef Loop loop
    cdef bint lent                      # a greenlet goes on in the host's place: the host is ready
    cdef public bint woke               # a greenlet or tasklet has become ready since others had their turn
    cdef public Py_ssize_t counted      # active watchers that keep the loop alive
    cdef list grounds                   # those that carry nothing

    cdef object wait(self, Loop loop, BaseTasklet tasklet)
    cdef PyObject* leave(self, BaseTasklet tasklet) noexcept
    cdef PyGreenlet* place_of(self, BaseTasklet tasklet) noexcept
    cdef int lend(self) except -1
    cdef int goes_on(self, BaseTasklet tasklet) except -1
    cdef int begin(self, object one, tuple args, object source) except -1
    cdef int over(self, object one) except -1
    cdef object ground(self)
    cdef int give_turns(self) except -1
    cdef int rest(self, bint more, bint look) except -1
