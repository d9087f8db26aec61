"""Tests of concurrent code: schedules that a seed repeats, on a clock that does not wait.

`schedules(n)` runs a test under many schedules of its threads and tasklets; `pytest --schedules N` and the
mark `schedules(N)` do so, too. In `virtual_time()` waits take no time.
"""

from syncless.testing.search import schedules
from syncless.testing.virtualtime import advance, until_idle, virtual_time

__all__ = ["advance", "schedules", "until_idle", "virtual_time"]
