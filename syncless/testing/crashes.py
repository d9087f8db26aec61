"""Crashes: kills a tasklet at each of its waits in turn, so that a test can look at what it leaves.

Takes: a function that may be called again and again. Gives: a point for each run, at which the tasklet of the
function was killed. It must not know of schedules or of time: it works with and without them.

A call that need not wait (a free lock, a queue with items) is a point, too: it may have to wait another time.
So the tasklet yields in each such call, see `yields_always` in choices.pyx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, ParamSpec

from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet
from syncless.patches import is_patched
from syncless.testing.choices import Watch, is_shielded, yields_always
from syncless.testing.interleaving import own_frame, where

_P = ParamSpec("_P")


class CrashPoint:
    """Where a tasklet was killed."""

    def __init__(self, number: int, line: str | None) -> None:
        self.number = number
        """1 for the first wait of the function."""
        self.line = line
        """The line and the reason, such as ``bank.py:31 waits for lock``; None if the function has ended
        without this many waits."""

    def __repr__(self) -> str:
        return f"point {self.number}: {self.line or 'not reached, the function has ended'}"


class _Killer:
    """Kills a tasklet at its wait of that number."""

    def __init__(self, function: Callable[[], object], number: int, name: str) -> None:
        self._number = number
        self._seen = 0
        self._stopped = True
        self.line: str | None = None
        self._errors: list[BaseException] = []
        self._tasklet: Tasklet[Any] = Tasklet(self._call, function)
        self._tasklet.name = name

    def _call(self, function: Callable[[], object]) -> None:
        try:
            function()
        except TaskletExit:
            raise  # ends this tasklet without a report
        except BaseException as error:
            self._errors.append(error)

    def run(self) -> None:
        watch = Watch(self._stops, self._goes_on)
        with _yielding(self._tasklet):
            watch.start()
            try:
                self._tasklet.join()
            finally:
                watch.stop()
                self._tasklet.kill()
        if self._errors:
            raise self._errors[0]

    def _stops(self, tasklet: Tasklet[Any]) -> None:
        if tasklet is self._tasklet and tasklet.status in ("waiting", "ready"):
            self._stopped = True
            if self._is_there():
                tasklet.kill(block=False)

    def _goes_on(self, tasklet: Tasklet[Any]) -> None:
        """It begins, has waited, or has yielded while no other tasklet was ready."""
        if tasklet is not self._tasklet:
            return
        stopped, self._stopped = self._stopped, False
        if not stopped and self._is_there():
            raise TaskletExit

    def _is_there(self) -> bool:
        if is_shielded(self._tasklet):
            return False
        self._seen += 1
        if self._seen != self._number:
            return False
        frame = own_frame(sys._getframe())
        why = self._tasklet.waiting_for
        what = "may let others run" if why is None else f"waits for {why}"
        self.line = what if frame is None else where(frame, what)
        return True


@contextmanager
def _yielding(tasklet: Tasklet[Any]) -> Iterator[None]:
    before = yields_always(tasklet)
    try:
        yield
    finally:
        yields_always(before)


def crash(function: Callable[_P, object], point: int, *args: _P.args, **kwargs: _P.kwargs) -> CrashPoint:
    """Run function(*args, **kwargs) in a tasklet that is killed at its wait number `point`, from 1 on. Return
    where that was, once the tasklet has ended.

    An exception of the function is raised here. Tasklets and threads that it has started are not killed. The
    process must be patched: else locks and queues of the standard library do not wait in tasklets.
    """
    if not is_patched("thread"):
        raise RuntimeError("crashes need the patch: call syncless.patches.patch_all() first")
    if point < 1:
        raise ValueError(f"points are numbered from 1, not {point}")
    killer = _Killer(lambda: function(*args, **kwargs), point, getattr(function, "__name__", "crash"))
    killer.run()
    return CrashPoint(point, killer.line)


def crash_points(function: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> Iterator[CrashPoint]:
    """Run function(*args, **kwargs) again and again: the first run is killed at its first wait, the second
    one at its second wait, and so on; the last one runs to its end. After each run, yield its point, so that
    the test can look at what is left.
    """
    for number in count(1):
        point = crash(function, number, *args, **kwargs)
        yield point
        if point.line is None:
            return
