"""When the next poll is due. See pollclock.pyx."""

from libc.stdint cimport int64_t


cdef struct PollClock:          # embedded in its owner
    int64_t now                 # ns; as fresh as the last poll, or a few short turns ago
    int64_t polled_at           # ns
    # a poll is due when either is used up
    int turns_left
    int64_t slice_ns
    int unread                  # turns that still go without a reading of the clock

cdef void polled(PollClock* clock, int64_t now) noexcept
cdef void share_equally(PollClock* clock, int64_t now, int items) noexcept
cdef void put_off(PollClock* clock) noexcept nogil
cdef bint is_poll_due(PollClock* clock) noexcept
