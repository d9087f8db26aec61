"""The interpreter's own locks, and their holders. See locks.pyx."""

from libc.stdint cimport uint32_t

cdef bint is_lock(object lock) noexcept
cdef bint is_rlock(object lock) noexcept
cdef bint lock_is_free(object lock) noexcept
cdef uint32_t holder_of_lock(object lock) noexcept
cdef unsigned long owner_of_rlock(object lock) noexcept
cdef void note_holder(object lock, uint32_t serial) noexcept
cdef void forget_holder(object lock) noexcept
