"""Tests of concurrent code: schedules that a seed repeats, on a clock that does not wait.

`schedules(n)` runs a test under many schedules of its threads and tasklets; `pytest --schedules N` and the
mark `schedules(N)` do so, too. In `virtual_time()` waits take no time. `crash_points()` kills a function at
each of its waits in turn, and in `network()` sockets connect to one another in memory.
"""

from syncless.testing.crashes import CrashPoint, crash, crash_points
from syncless.testing.search import schedules
from syncless.testing.sockets import network
from syncless.testing.virtualtime import advance, until_idle, virtual_time

__all__ = [
    "CrashPoint",
    "advance",
    "crash",
    "crash_points",
    "network",
    "schedules",
    "until_idle",
    "virtual_time",
]
