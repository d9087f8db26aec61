"""The poll clock says when the loop must look for events again.

So work that goes on and on cannot starve waiters; docs/design.md says under Fairness why it counts turns and
time.
"""

cdef enum:
    POLL_ITEMS = 64             # items run before a poll is due
    POLL_AFTER = 200000         # ns run before a poll is due
    SHORT = 4000  # ns from one reading of the clock to the next, after which the next three turns go without


cdef void polled(PollClock* clock, int64_t now) noexcept:
    """A poll is over: the next is due after POLL_ITEMS items or POLL_AFTER ns."""
    clock.now = clock.polled_at = now
    clock.turns_left = POLL_ITEMS
    clock.slice_ns = POLL_AFTER


cdef void share_equally(PollClock* clock, int64_t now, int items) noexcept:
    """The items that a poll brought are done: those that are ready get as many turns and as much time before
    the next."""
    cdef int64_t spent = now - clock.polled_at
    polled(clock, now)
    clock.turns_left = max(items, <int> POLL_ITEMS)
    clock.slice_ns = max(spent, <int64_t> POLL_AFTER)


cdef bint is_poll_due(PollClock* clock) noexcept:
    """Once it is due it stays so until there was one: a tasklet that yields asks, and the leader asks
    again."""
    cdef int64_t before
    if is_exploring():
        return explorer.due(clock)
    clock.turns_left -= 1
    if clock.unread:  # turns are short: reading the clock each time would be a good part of their cost
        clock.unread -= 1
    else:
        before = clock.now
        clock.now = monotonic_ns()
        if clock.now - clock.polled_at > clock.slice_ns:
            clock.turns_left = 0
        elif clock.now - before < SHORT:
            clock.unread = 3
    return clock.turns_left <= 0
