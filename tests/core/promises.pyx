"""Breaks the promises of loop/invariants.pxi, for the tests of the check; built by the fixture `promises`."""

from libc.stdint cimport int64_t

from syncless._core.linked cimport Node
from syncless._core.scheduler cimport PARKED, READY, RUNNING, BaseTasklet, Scheduler


def break_promise(Scheduler loop not None, str which not None) -> None:
    """Breaks one; mends it when called again. The newest tasklet is parked."""
    cdef BaseTasklet newest = <BaseTasklet> loop.live.last.owner
    if which == "live":
        loop.live_count ^= 1
    elif which == "neighbours":
        newest.life.before = <Node*> (<size_t> newest.life.before ^ 1)
    elif which == "state":
        newest.state ^= PARKED ^ READY
    elif which == "running":
        loop.current.state ^= RUNNING ^ PARKED
    elif which == "parked":
        loop.parked_count ^= 1 << 20
    elif which == "waits":
        loop.mutual_count ^= 1 << 20
    elif which == "carriers":
        loop.carriers.count ^= 1 << 20
        loop.carriers.idle_count ^= 1 << 21
    elif which == "timer":
        loop.timers.heap[0].when ^= <int64_t> 1 << 62
    elif which == "place":
        loop.timers.heap[0].index ^= 1
    elif which == "ring":
        loop.ready.count ^= 1 << 20
    elif which == "stillness":
        loop.switched += 1
