from libc.stdint cimport int64_t

cdef object new_held_lock()
cdef bint take_lock(object lock, int64_t deadline) except -1
cdef int give_lock(object lock) except -1
cdef bint take_rlock(object lock, int64_t deadline) except -1
cdef bint owns_rlock(object lock) noexcept
cdef int take_turns_at_times() except -1
