"""Idle carriers, and the memory of saved stacks, are given back after many tasklets have waited at
once.

Fact: greenlet keeps the stack of a resting carrier in a block of malloc's, made and freed at each switch.
Blocks of thousands of carriers lie between others that stay, so the C library gives none of their pages back.
Danger: 4,000 tasklets that wait within deep calls leave 110 MB for good. Decision: when many carriers have
ended, and the loop has nothing to do, malloc_trim() returns all free pages, but not too often. An arena
for stacks would need a hook in PyMem_Malloc, which every list and dictionary would pay for. Price: about 0.1
ms per megabyte that is given back, at most 0.5 % of the time. Guarded by tests/core/test_memory.py.
"""

from libc.stdint cimport int64_t

from syncless._core.clock cimport NEVER, monotonic_ns
from syncless._core.scheduler cimport Scheduler

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
    IDLE_CARRIERS = 256         # kept; one that has run Python code holds about 6 kB
    ENDED_PER_POLL = 64
    MANY = 500                  # carriers that end before memory is given back
    SHARE = 200                 # giving back takes at most 1/SHARE of the time

# both belong to the process, as its memory does; guarded by the GIL
cdef Py_ssize_t ended = 0       # carriers, of all threads, since memory was given back
cdef int64_t allowed = 0        # when it may be given back again, ns


cdef int64_t trim(Scheduler loop, int64_t timeout) except -2:
    """Called before a poll that would wait for `timeout` ns, 0, or NEVER, if nothing is ready. Returns the
    time for which it may wait."""
    global ended
    cdef int n = 0
    while loop.carriers.idle_count > IDLE_CARRIERS:
        if n == ENDED_PER_POLL:
            return 0
        ended += 1
        n += 1
        loop.carriers.end_one()
    if loop.ready.count:
        return 0
    return timeout if ended < MANY or timeout == 0 else trim_memory(timeout)


cdef int64_t trim_memory(int64_t timeout) noexcept:
    global ended, allowed
    cdef int64_t now = monotonic_ns()
    if now < allowed:
        return allowed - now if timeout == NEVER or timeout > allowed - now else timeout
    ended = 0
    with nogil:
        give_back()
    allowed = monotonic_ns() + SHARE * (monotonic_ns() - now)
    return 0                                    # time has passed: look again
