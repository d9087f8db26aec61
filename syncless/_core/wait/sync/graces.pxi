"""Waits for locks in clean-up code, which are not interrupted at once.

Fact: what clean-up code gives back, such as a pool's connection, it gives back under a lock, which another
tasklet may hold. Danger: an interrupt that is raised there leaves the connection taken for ever. Decision: a
Timeout, a deadline or a kill that comes at a lock in clean-up code (cleanup.py) is raised at the next wait,
or in GRACE_SECONDS if the lock is not free by then. Price: it may be that much late. Guarded by
tests/core/test_cleanup.py.
"""

GRACE_SECONDS = 1.0
"""Seconds for which an interrupted tasklet waits for locks that its clean-up code needs."""

cdef dict graces = {}               # serial number of such a tasklet -> the end of that time, ns


cdef int wait_for_lock(WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    """As wait_in(). But it may return WOKEN before the lock is free: the caller retries. See above."""
    cdef BaseTasklet me = get_loop().current
    cdef int64_t until
    cdef int outcome
    if me is None or me.shielded:
        return wait_in(queue, why, on, deadline)
    if me.pending is None:
        if graces:
            graces.pop(me.serial, None)
        outcome = wait_shielded(me, IN_C, queue, why, on, deadline)
        if me.pending is not None and not puts_off(me):
            raise next_pending(me)
        return outcome
    me.handed_over = False
    if not puts_off(me):
        raise next_pending(me)
    until = graces[me.serial]
    if deadline != NEVER and deadline < until:
        return wait_shielded(me, SHIELDED, queue, why, on, deadline)
    wait_shielded(me, SHIELDED, queue, why, on, until)
    return WOKEN


cdef int wait_shielded(
        BaseTasklet me, int shield, WaitQueue* queue, const char* why, object on, int64_t deadline) except -1:
    me.shielded = shield
    try:
        return wait_in(queue, why, on, deadline)
    finally:
        me.shielded = OPEN


cdef bint cleans_up() except -1:
    """Nothing waits in it, neither an import nor a finaliser: the tasklet may have been woken."""
    cdef Loop loop = get_loop()
    cdef uint64_t before = loop.switched
    cdef BaseTasklet me = begin_still(loop)
    try:
        return in_clean_up()
    finally:
        end_still(loop, me, before)


cdef bint puts_off(BaseTasklet me) except -1:
    """Return whether what is thrown at the tasklet is raised later: it is in clean-up code, and has time
    left."""
    cdef int64_t now = monotonic_ns()
    first = (<list> me.pending)[0] if type(me.pending) is list else me.pending
    if type(first) is Thrown:
        first = (<Thrown> first).exception
    if isinstance(first, KeyboardInterrupt) or me.loop.ending or not cleans_up():
        graces.pop(me.serial, None)
        return False
    if me.serial not in graces:
        for number in [number for number, end in graces.items() if end + 60_000_000_000 < now]:
            del graces[number]      # it has ended since, or waits for something else
        graces[me.serial] = deadline_after(GRACE_SECONDS)
    if now < <int64_t> graces[me.serial]:
        return True
    del graces[me.serial]
    return False
