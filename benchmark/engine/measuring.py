"""How an operation is measured: the best of three, so that what others do on the machine counts least."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable


def cpu_per_operation(function: Callable[[int], object], n: int) -> float:
    """Nanoseconds of CPU, of all threads, for one of the n operations that the function does."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time_ns()
        function(n)
        best = min(best, (time.process_time_ns() - started) / n)
    return best


def resident() -> int:
    """The most bytes of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
