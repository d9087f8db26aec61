"""Explored schedules: in builds with assertions a seed decides what comes next, where the engine may choose.

Takes: a seed, by explore() or at the start from SYNCLESS_EXPLORE. Gives: decisions, at the seams that
`explorer` of scheduler.pxd names. Release builds do not have this module. tests/simulate looks
for faults with it.

A correct program depends on none of these, so each may go either way:

- which ready item is the next, unless the program uses Stackless's API, which promises an order;
- whether a poll is due, and so whether a call that need not wait lets others run before;
- how many events a poll brings; the kernel keeps the rest.

How likely each of them is comes from the seed as well: some faults need many switches, some need one tasklet
to get far ahead of all others. The clock has no say, so that the seed alone fixes a run, if all else comes
from it too: time (tests/virtual_clock.c), threads, the hash seed. explored() has a number that two runs share
if they went the same way.

The moment between wake() and the turn of what it woke is short, and wake-ups are lost there. So a tasklet
that calls next_woken() gets its turns there, whenever the seed says so: to kill the other one, or to let time
pass.
"""

from libc.stdint cimport uint64_t

from syncless._core.clock cimport NEVER
from syncless._core.scheduler cimport (
    PARKED, READY, BaseTasklet, PollClock, ReadyQueue, Scheduler, explorer, place_of,
)
from syncless._core.threadloop cimport get_loop

cdef uint64_t state = 0             # of the random numbers
cdef uint64_t decisions = 0, digest = 0
cdef uint64_t first_one_in = 1      # the first item stays the first
cdef uint64_t poll_one_in = 1       # looks: a poll is due
cdef uint64_t woken_one_in = 1      # of the wake-ups, while a tasklet is in next_woken()
cdef BaseTasklet watcher = None     # that tasklet


cdef uint64_t any_of(uint64_t count) noexcept:
    """Return a number below the count: xorshift64*."""
    global state, decisions, digest
    cdef uint64_t chosen
    state ^= state >> 12
    state ^= state << 25
    state ^= state >> 27
    chosen = ((state * <uint64_t> 0x2545F4914F6CDD1D) >> 33) % count
    decisions += 1
    digest = (digest ^ chosen ^ count << 32) * <uint64_t> 0x100000001b3
    return chosen


cdef bint due(PollClock* clock) noexcept:
    return any_of(poll_one_in) == 0


cdef void choose(Scheduler loop) noexcept:
    """Another item becomes the first of the ready queue, which is not empty."""
    cdef ReadyQueue* queue = &loop.ready
    cdef size_t at = queue.head
    if explorer.keeps_order:
        return
    if watcher is not None and watcher.state == READY and watcher.loop is loop:
        at += place_of(queue, watcher)
    elif first_one_in == 1 or any_of(first_one_in):
        at += any_of(queue.count)
    at &= queue.mask
    queue.ring[queue.head], queue.ring[at] = queue.ring[at], queue.ring[queue.head]


cdef int woken(BaseTasklet tasklet) except -1:
    """It is ready, and has not run. From its own thread."""
    if watcher is not None and watcher.state == PARKED and watcher.loop is tasklet.loop and (
            tasklet is not watcher) and any_of(woken_one_in) == 0:
        tasklet.loop.wake(watcher, tasklet)
    return 0


def next_woken():
    """Wait until the seed chooses a tasklet that has just been woken, and returns it before it runs."""
    global watcher
    cdef Scheduler loop = get_loop()
    if watcher is not None:
        raise RuntimeError("another tasklet is already in next_woken()")
    watcher = loop.current
    try:
        loop.park("a wake-up", None, NEVER)
        return watcher.value
    finally:
        watcher = None


def explore(uint64_t seed) -> None:
    """Explore from now on; 0: no more."""
    global state, decisions, digest, first_one_in, poll_one_in, woken_one_in
    state = seed * <uint64_t> 0x9E3779B97F4A7C15
    decisions = digest = 0
    if seed == 0:
        explorer.due, explorer.choose, explorer.woken = NULL, NULL, NULL
        return
    first_one_in = [1, 2, 3, 8, 20][any_of(5)]
    woken_one_in = [2, 5, 20, 80][any_of(4)]
    poll_one_in = [2, 3, 6, 15, 50][any_of(5)]
    explorer.most_events = [1, 2, 4, 16][any_of(4)]
    explorer.due, explorer.choose, explorer.woken = due, choose, woken


def explored() -> tuple:
    """Return how many decisions there were since explore(), and a number that stands for all of them."""
    return decisions, digest
