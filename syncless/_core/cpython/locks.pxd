from libc.stdint cimport int64_t, uint32_t

cdef bint may_park() noexcept
cdef bint is_lock(object lock) noexcept
cdef bint is_rlock(object lock) noexcept
cdef bint lock_is_free(object lock) noexcept
cdef object new_held_lock()
cdef uint32_t holder_of_lock(object lock) noexcept
cdef unsigned long owner_of_rlock(object lock) noexcept
cdef bint take_lock(object lock, int64_t deadline) except -1
cdef int give_lock(object lock) except -1
cdef bint take_rlock(object lock, int64_t deadline) except -1
cdef bint owns_rlock(object lock) noexcept
cdef int take_turns_at_times() except -1
cdef int wake_first(object thing) except -1
