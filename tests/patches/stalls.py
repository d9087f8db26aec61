"""A ticker that says for how long others were held up, the machine's own pauses left out; and how long tests
let a program wait.

A busy machine makes a thread wait for a processor, and a virtual one may lose its processors for a while. The
kernel counts both (/proc/thread-self/schedstat, the column "steal" of /proc/stat), so they are taken off. The
rest was held by code of the thread's own, or by a system call in which it blocked. On the virtual clock only
calls that block take time. Of a target that computes no pause counts that is longer than the CPU time of the
whole process in it: whoever computes, in the thread itself or with the interpreter's lock, takes CPU time.
"""

import os
import time

import syncless
from tests import virtualtime

WAITS = 0.3, 0.3, 0.3, 1.0, 3.0, 9.0
"""Seconds that the programs under test wait, one attempt after the other. The kernel does not count a page
that must come from the disk; the next time it may be in memory."""
WAIT = float(os.environ.get("SYNCLESS_TEST_WAIT", WAITS[0]))
"""The length of the waits in this program, in seconds."""
WORST = 0.05
"""The longest that a ticker may stand still, in seconds, as docs/reference/patches.md promises."""
PERIOD = 0.005
TICK = 1 / os.sysconf("SC_CLK_TCK")

# in a list, where the patch does not look for what it should replace
_calls = [time.perf_counter, os.pread, os.open, time.process_time]


def environment(wait: float) -> dict[str, str]:
    """For a program under test that is to wait for this many seconds."""
    return {**os.environ, "SYNCLESS_TEST_WAIT": str(wait)}


class Clock:
    """Seconds of the thread that makes it. Those are left out that the machine did not give."""

    def __init__(self) -> None:
        self._schedstat, self._stat = (
            _calls[2](f"/proc/{name}", os.O_RDONLY) for name in ("thread-self/schedstat", "stat")
        )

    def now(self) -> float:
        clock, read, *_ = _calls
        if virtualtime.preloaded():  # computing and the machine's pauses take no time
            return clock()
        delayed = int(read(self._schedstat, 100, 0).split()[1]) / 1e9
        stolen = int(read(self._stat, 200, 0).split()[8]) * TICK
        return clock() - delayed - stolen


class Ticker:
    """Ticks in a tasklet of the thread that makes it. `worst` is its longest pause so far, in seconds; it may
    be set back to 0."""

    def __init__(self, computes: bool = False) -> None:
        self._clock = Clock()
        self._computes = computes
        self.worst = 0.0
        self._last, self._last_cpu = self._clock.now(), _calls[3]()
        syncless.spawn(self._run)
        syncless.sleep(4 * PERIOD)
        self.worst = 0.0

    def _run(self) -> None:
        while True:
            syncless.sleep(PERIOD)
            try:
                now = self._clock.now()
            except ProcessLookupError:  # the interpreter is ending, and the thread has gone
                return
            cpu = _calls[3]()
            pause = now - self._last
            if self._computes:
                pause = min(pause, cpu - self._last_cpu)
            self.worst = max(self.worst, pause - PERIOD)
            self._last, self._last_cpu = now, cpu
