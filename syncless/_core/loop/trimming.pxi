"""Memory is given back when many carriers have ended.

Fact: greenlet keeps the stack of a resting carrier in a block of malloc's, made and freed at each switch.
Blocks of thousands of carriers lie between others that stay, so the C library gives none of their pages back.
Danger: 4,000 tasklets that wait within deep calls leave 110 MB for good. Decision: when many carriers have
ended, and the loop has nothing to do, malloc_trim() returns all free pages, but not too often. An arena
for stacks would need a hook in PyMem_Malloc, which every list and dictionary would pay for. Price: about 0.1
ms per megabyte that is given back, at most 0.5 % of the time. Guarded by tests/core/test_memory.py.
"""

cdef extern from *:
    """
    #ifdef __linux__
    #include <features.h>
    #endif
    #ifdef __GLIBC__
    #include <malloc.h>
    static void syncless_give_back(void) { malloc_trim(0); }
    #else
    static void syncless_give_back(void) {}
    #endif
    """
    void give_back "syncless_give_back" () nogil

cdef enum:
    # kept, and as many more as make up the mark; one that has run Python code holds about 6 kB
    IDLE_CARRIERS = 64
    ENDED_PER_POLL = 64
    MANY = 500                  # carriers that end before memory is given back
    SHARE = 200                 # giving back takes at most 1/SHARE of a processor's time

# both belong to the process, as its memory does; guarded by the GIL
cdef Py_ssize_t ended = 0       # carriers, of all threads, since memory was given back
cdef int64_t allowed = 0        # when it may be given back again, ns


cdef int64_t trim(Scheduler loop, int64_t timeout) except -2:
    """Called before a poll that would wait for `timeout` ns, 0, or NEVER, if nothing is ready. Return the
    time for which it may wait."""
    if loop.carriers.count > IDLE_CARRIERS:
        timeout = trim_carriers(loop.carriers, timeout)
    if loop.ready.count:
        return 0
    return timeout if ended < MANY or timeout == 0 else trim_memory(timeout)


cdef int64_t trim_carriers(Carriers carriers, int64_t timeout) except -2:
    """Ends idle carriers that have not been needed lately: loads come in waves."""
    global ended
    cdef int64_t now = monotonic_ns(), again
    cdef Py_ssize_t busy = carriers.count - carriers.idle_count
    cdef int _
    note(&carriers.mark, busy)
    again = sink(&carriers.mark, busy, now)
    for _ in range(ENDED_PER_POLL):
        if carriers.idle_count <= IDLE_CARRIERS:
            return timeout
        if carriers.count <= carriers.mark.most:
            return at_most(timeout, again - now)
        ended += 1
        carriers.end_one()
    return 0


cdef int64_t at_most(int64_t timeout, int64_t limit) noexcept:
    return limit if timeout == NEVER or timeout > limit else timeout


cdef int64_t trim_memory(int64_t timeout) noexcept:
    global ended, allowed
    cdef int64_t now = monotonic_ns(), again, began
    if now < allowed:
        return at_most(timeout, allowed - now)
    began = clock_ns(CLOCK_THREAD_CPUTIME_ID)
    ended = 0
    again = lower_mark(now)
    with nogil:
        give_back()
    allowed = monotonic_ns() + SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began)
    if again:
        ended = MANY
        allowed = max(allowed, again)
    return 0                                    # time has passed: look again
