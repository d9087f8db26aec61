"""Tools that show what happens: tasklets with their stacks and waits, deadlocks, and code that blocks the
loop for too long."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from syncless._core.bytecodes import CpuTime, TurnLimit
from syncless._core.cpython.features import COUNTS_BORROWED_REFERENCES
from syncless._core.loop import Loop
from syncless._core.recorder import recorded
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import all_loops, current_loop
from syncless._core.wait.sync import Waits, may_be_circles
from syncless._core.waits import Wait
from syncless.tools import leaks, tracing
from syncless.tools.blockers import Stall, Watch

if TYPE_CHECKING:
    from logging import Logger


def describe(tasklet: Tasklet[Any], stack: bool = True, waits: Waits | None = None) -> str:
    """Describe a tasklet: its name, its state or the object that it waits for, the start of the wait, the
    holder of that object, and its stack."""
    waits = waits or Waits()
    seconds = tasklet.waiting_seconds
    doing = tasklet.status if seconds is None else f"waits for {tasklet.waiting_for}, since {seconds:.3f} s"
    waited = tasklet.waiting_object
    if waited is not None:
        holder = waits.holder(waited)
        doing += f": {waited!r}" + ("" if holder is None else f", held by {waits.label(holder)}")
    cpu = f", {tasklet.cpu_seconds:.3f} s of CPU" if tasklet.cpu_seconds else ""
    ids = getattr(tasklet, "ids", None)  # of a request, which are in the logs, too
    known = "" if ids is None else f", request {ids.request_id}"
    lines = [f"{waits.label(tasklet)} ({tasklet.switches} switches{cpu}{known}): {doing}\n"]
    frame = tasklet.frame if stack else None
    if frame is not None:
        lines += traceback.format_stack(frame)
    return "".join(lines)


def _format_circles(circles: list[list[Tasklet[Any]]], waits: Waits) -> str:
    named = ([waits.label(tasklet) for tasklet in (*circle, circle[0])] for circle in circles)
    return "".join(f"deadlock: {' waits for '.join(names)}\n" for names in named)


def format_tasklets(loop: Loop | None = None, stacks: bool = True) -> str:
    """Return all live tasklets of a loop (default: this thread's), oldest first, then each circle of tasklets
    that wait for one another."""
    return format_stuck((loop or current_loop()).tasklets(), stacks)


def find_deadlocks() -> list[list[Tasklet[Any]]]:
    """Return the circles of tasklets, in all threads, in which each tasklet waits for the next one to release
    a lock or to end.

    A wait with a timeout does not count. A plain Lock in a circle could still be released by another tasklet.
    """
    return Waits().circles()


def find_leaks(loop: Loop | None = None) -> list[Tasklet[Any]]:
    """Return the tasklets of a loop (default: of all threads) that nothing can wake: each waits, without
    limit, for an object that no code knows which may still run. It looks at all objects of the program, and
    blocks the loop for that time. Raise RuntimeError since Python 3.14, whose reference counts do not tell
    whether C code keeps an object."""
    if not COUNTS_BORROWED_REFERENCES:
        raise RuntimeError(
            "leaks cannot be found on Python 3.14 and later: their reference counts do not tell whether C "
            "code keeps an object; use debug.print_tasklets()"
        )
    return leaks.find_leaks(all_loops() if loop is None else [loop])


def print_leaks(file: TextIO | None = None) -> None:
    """Print find_leaks() with stacks to standard error, or to the file."""
    found = find_leaks()
    heading = (
        f"{len(found)} of {sum(len(loop.tasklets()) for loop in all_loops())} tasklets cannot be woken\n"
    )
    print(heading + format_stuck(found), end="", file=file or sys.stderr)


def format_tree(loop: Loop | None = None) -> str:
    """Return all live tasklets without stacks, each below its parent, or unindented if the parent has
    ended."""
    tasklets = (loop or current_loop()).tasklets()
    alive = {tasklet.number for tasklet in tasklets}
    children: dict[int, list[Tasklet[Any]]] = {}
    for tasklet in tasklets:
        parent = tasklet.parent_number if tasklet.parent_number in alive else 0
        children.setdefault(parent, []).append(tasklet)
    lines = []
    waits = Waits()
    todo = [(tasklet, 0) for tasklet in reversed(children.get(0, ()))]
    while todo:
        tasklet, depth = todo.pop()
        lines.append("    " * depth + describe(tasklet, False, waits))
        todo += [(child, depth + 1) for child in reversed(children.get(tasklet.number, ()))]
    return "".join(lines)


def print_tasklets(file: TextIO | None = None) -> None:
    """Print format_tasklets() of each thread to standard error, or to the file."""
    loops = all_loops()
    names = {thread.ident: thread.name for thread in threading._active.values()}  # type: ignore[attr-defined]
    for loop in loops:
        heading = f"{names.get(loop.thread_id, 'another thread')}:\n" if len(loops) > 1 else ""
        print(heading + format_tasklets(loop), end="", file=file or sys.stderr)


def longest_waits(request: Tasklet[Any]) -> list[Wait]:
    """Return the longest waits of a request so far, at most 64, in chronological order: the reason, the line
    of the program, and the duration. Waits of the first 20 ms have no line. The list is empty for other
    tasklets."""
    kept = recorded(request)
    return [] if kept is None else kept.kept()


trace = tracing.trace


_cpu_time: dict[Loop, CpuTime] = {}


def measure_cpu(on: bool = True) -> None:
    """Measure the CPU time of this thread's tasklets from now on, or stop; see Tasklet.cpu_seconds. This
    costs a system call per switch."""
    loop = current_loop()
    if on and loop not in _cpu_time:
        _cpu_time[loop] = CpuTime()
        _cpu_time[loop].start()
    elif not on and loop in _cpu_time:
        _cpu_time.pop(loop).stop()


def _logger() -> Logger:
    import logging  # takes long to load

    return logging.getLogger("syncless.debug")


class Deadlock(RuntimeError):
    """Raised in the main thread of a patched program when nothing can wake it any more."""


def format_stuck(tasklets: list[Tasklet[Any]], stacks: bool = True) -> str:
    """Return these tasklets, and each circle of tasklets that wait for one another and of which one is among
    them."""
    waits = Waits()
    circles = [circle for circle in waits.circles() if not set(tasklets).isdisjoint(circle)]
    return "".join(describe(tasklet, stacks, waits) for tasklet in tasklets) + _format_circles(circles, waits)


def _log_deadlock(tasklets: list[Tasklet[Any]]) -> None:
    _logger().error("deadlock: these tasklets wait for one another:\n%s", format_stuck(tasklets))


def report_deadlocks(report: Callable[[list[Tasklet[Any]]], object] | None = _log_deadlock) -> None:
    """Report tasklets that wait for one another forever, even while others run and servers listen.

    This thread's loop calls `report(tasklets)` once for each deadlock. By default the logger "syncless.debug"
    shows the tasklets' names, waits and stacks. None stops the reports. Two kinds of deadlocks are reported:
    the circles of find_deadlocks(), and all tasklets of this thread if they wait for one another's queues,
    events and channels and nothing can wake them. The second kind is not reported while the program has
    another thread (other than those of run_in_thread), which might wake a tasklet.
    """
    loop = current_loop()
    before = loop.when_idle
    if isinstance(before, _DeadlockReport):
        before = before.before
    loop.when_idle = before if report is None else _DeadlockReport(before, report)
    loop.idle_or_not = report is not None


class _DeadlockReport:
    """Replaces a loop's when_idle(), and calls it first."""

    BUSY_SECONDS = 0.5
    """How often a loop that always has something to do looks for circles."""

    def __init__(
        self, before: Callable[[Loop], object] | None, report: Callable[[list[Tasklet[Any]]], object]
    ):
        self.before = before
        self.report = report
        self.told: set[tuple[int, ...]] = set()
        self.looked = 0.0

    def __call__(self, loop: Loop) -> None:
        now = time.monotonic()
        if loop.ready_count:
            if now < self.looked + self.BUSY_SECONDS:
                return
        elif self.before is not None:
            self.before(loop)
        self.looked = now
        if loop.hopeless() and threading.active_count() == 1:
            found = [loop.tasklets()]
        else:
            found = Waits().circles() if may_be_circles(loop) else []
        by_numbers = {tuple(sorted(tasklet.number for tasklet in tasklets)): tasklets for tasklets in found}
        new = [tasklets for numbers, tasklets in by_numbers.items() if numbers not in self.told]
        self.told = set(by_numbers)
        for tasklets in new:
            self.report(tasklets)


def _log(seconds: float, stack: str) -> None:
    _logger().warning("the loop has been held for %.0f ms by:\n%s", seconds * 1000, stack)


def _log_bytecodes(bytecodes: int, tasklet: Tasklet[Any], stack: str) -> None:
    _logger().warning("%s has run %d bytecodes without yielding:\n%s", tasklet.name, bytecodes, stack)


class BytecodeWatchdog:
    """Reports each turn of a tasklet of this thread that executes more than `bytecodes` bytecodes. The count
    is repeatable, regardless of the load of the machine::

        with BytecodeWatchdog(100_000):
            run_the_tests()

    `report(bytecodes, tasklet, stack)` is called where a turn exceeds the limit, once per turn. By default
    the logger "syncless.debug" logs a warning. The watchdog makes Python code several times slower, so it is
    for tests. Before Python 3.12 it raises RuntimeError if a debugger or coverage traces the thread.
    """

    def __init__(
        self, bytecodes: int = 1_000_000, report: Callable[[int, Tasklet[Any], str], object] = _log_bytecodes
    ):
        self._limit = TurnLimit(bytecodes, self._exceeded)
        self.report = report

    def _exceeded(self, tasklet: Tasklet[Any]) -> None:
        self.report(self._limit.limit, tasklet, "".join(traceback.format_stack(sys._getframe(1))))

    def start(self) -> None:
        """Start watching the calling thread."""
        self._limit.start()

    def stop(self) -> None:
        """Stop watching; call this in the thread that called start(). It is harmless if nothing is
        watched."""
        self._limit.stop()

    def __enter__(self) -> BytecodeWatchdog:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Watchdog:
    """Reports code that blocks this thread's loop for longer than `milliseconds`, from an OS thread and while
    the loop is blocked::

        with Watchdog(milliseconds=50):
            serve(app)

    `report(seconds, stack)` is called in the OS thread, once per stall. The stack ends with the C function
    that blocks the loop, if there is one, and a possible fix. By default the logger "syncless.debug" logs a
    warning.
    """

    def __init__(self, milliseconds: float = 100, report: Callable[[float, str], object] = _log):
        if milliseconds <= 0:
            raise ValueError(f"milliseconds must be positive, not {milliseconds}")
        self.seconds = milliseconds / 1000
        self.report = report
        self._watch: Watch | None = None

    def start(self) -> None:
        """Watch the loop of the calling thread."""
        if self._watch is not None:
            raise RuntimeError("this watchdog is already running")
        self._watch = Watch(self.seconds, self._note)

    def stop(self) -> None:
        """Stop watching. It is harmless if nothing is watched."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _note(self, stall: Stall, has_ended: bool) -> None:
        if not has_ended:
            self.report(stall.seconds, stall.text)

    def __enter__(self) -> Watchdog:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
