from libc.stdint cimport int64_t, uint64_t

ctypedef void (*fire_t)(void* owner) noexcept

cdef struct Timer:
    int64_t when            # nanoseconds of the monotonic clock
    uint64_t order          # equal deadlines fire in the order in which they were set
    Py_ssize_t index        # place in the heap; -1 while not set
    fire_t fire             # may make tasklets ready, must not switch
    void* owner             # embeds this struct; keeps itself alive while the timer is set


cdef inline void timer_init(Timer* timer, fire_t fire, void* owner) noexcept:
    timer.index = -1
    timer.fire = fire
    timer.owner = owner


cdef class TimerHeap:
    cdef Timer** heap
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef uint64_t order
    cdef int add(self, Timer* timer, int64_t when) except -1
    cdef void remove(self, Timer* timer) noexcept
    cdef int fire_due(self, int64_t now) noexcept
    cdef void clear(self) noexcept
    cdef void _up(self, Py_ssize_t i) noexcept
    cdef void _down(self, Py_ssize_t i) noexcept


cdef enum:
    LOOKED_AT = 15              # the four upper levels of the heap have the earliest ones, or nearly


cdef inline int64_t next_deadline(TimerHeap timers, int64_t slack) noexcept:
    """When to look at the timers, which must be some: once for all that are due within `slack` ns of the
    first. Nanoseconds of the monotonic clock."""
    cdef int64_t when = timers.heap[0].when, last = when
    cdef Py_ssize_t i
    for i in range(1, min(timers.count, LOOKED_AT)):
        if last < timers.heap[i].when <= when + slack:
            last = timers.heap[i].when
    return last
