"""Seeing what happens: the tasklets with their stacks and what they wait for, and who holds the loop for too long."""

from __future__ import annotations

import _thread
import logging
import sys
import traceback
from collections.abc import Callable
from typing import TextIO

from syncless._core.loop import Loop, current_loop
from syncless._core.tasklet import Tasklet

logger = logging.getLogger("syncless.debug")

_start_new_thread = _thread.start_new_thread


def describe(tasklet: Tasklet, stack: bool = True) -> str:
    """A tasklet's name, what it does or waits for and since when, and where it stands."""
    seconds = tasklet.waiting_seconds
    doing = tasklet.status if seconds is None else f"waits for {tasklet.waiting_for}, since {seconds:.3f} s"
    waited = tasklet.waiting_object
    if waited is not None:
        doing += f": {waited!r}"
    lines = [f"{tasklet.name}: {doing}\n"]
    if stack and tasklet.frame is not None:
        lines += traceback.format_stack(tasklet.frame)
    return "".join(lines)


def format_tasklets(loop: Loop | None = None, stacks: bool = True) -> str:
    """All live tasklets of a loop, by default this thread's, oldest first."""
    return "".join(describe(tasklet, stacks) for tasklet in (loop or current_loop()).tasklets())


def print_tasklets(file: TextIO | None = None) -> None:
    """format_tasklets() on standard error, or into the file."""
    print(format_tasklets(), end="", file=file or sys.stderr)


def _log(seconds: float, stack: str) -> None:
    logger.warning("the loop has been held for %.0f ms by:\n%s", seconds * 1000, stack)


class Watchdog:
    """A real thread that tells of whoever holds this thread's loop for more than so many milliseconds, while it does::

        with Watchdog(milliseconds=50):
            serve(app)

    `report(seconds, stack)` is called in that thread, once each time; by default the logger "syncless.debug" warns.
    """

    def __init__(self, milliseconds: float = 100, report: Callable[[float, str], object] = _log):
        if milliseconds <= 0:
            raise ValueError(f"a watchdog needs more than {milliseconds} ms")
        self.seconds = milliseconds / 1000
        self.report = report
        self._stop: _thread.LockType | None = None

    def start(self) -> None:
        """Watches the loop of the calling thread."""
        if self._stop is not None:
            raise RuntimeError("this watchdog watches already")
        self._stop = _thread.allocate_lock()
        self._stop.acquire()
        _start_new_thread(self._watch, (current_loop(), _thread.get_ident(), self._stop))

    def stop(self) -> None:
        """Harmless if it does not watch."""
        if self._stop is not None:
            self._stop.release()
            self._stop = None

    def _watch(self, loop: Loop, thread: int, stop: _thread.LockType) -> None:
        told = False
        while not stop.acquire(timeout=self.seconds / 2):
            held = loop.held_for()
            if held < self.seconds:
                told = False
            elif not told:
                told = True
                frame = sys._current_frames().get(thread)
                if frame is not None:  # or it is in the engine itself
                    self.report(held, "".join(traceback.format_stack(frame)))

    def __enter__(self) -> Watchdog:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
