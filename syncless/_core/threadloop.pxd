"""Which loop a thread has, from its first use to its end, and after a fork. See threadloop.pyx."""

from syncless._core.loop cimport Loop
from syncless._core.scheduler cimport Scheduler

cdef int end_tasklets(Scheduler loop) except -1
cdef int end_carriers(Scheduler loop) except -1


cdef object loops                   # WeakValueDictionary: thread id -> Loop
cdef int forks                      # between the first process and this one
cdef Loop get_loop()
cdef Loop peek_loop()
cdef bint has_loop() noexcept nogil
cdef Loop loop_of(object where)


cdef void end_process(BaseException exception) noexcept
