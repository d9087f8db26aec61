"""Which loop a thread has. See threadloop.pyx."""

from syncless._core.loop cimport Loop

cdef object loops                   # WeakValueDictionary: thread id -> Loop
cdef void put_off_polls() noexcept nogil
cdef Loop get_loop()
cdef Loop peek_loop()
cdef bint has_loop() noexcept nogil
cdef void set_forked(bint forked) noexcept nogil
cdef Loop loop_of(object where)
