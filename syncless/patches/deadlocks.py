"""A program that can never go on ends with an error: each of its threads and tasklets waits for another one.

Fact: the interpreter would wait silently for ever. Danger: a program that something can wake ends because of
us. Decision: only what is known to be hopeless ends. The loop has no deadline, no descriptor and no call in
an OS thread; the process has no other OS thread, be it one of a C library, and catches no signal that could
be the program's, as the kernel tells; and nobody waits for a signal. All this is so at two looks, because
what a thread did before it ended may be on its way. A main thread that waits for an event is left alone: so
do programs that live until Ctrl-C. Price: nothing, until the loop is about to sleep in such a state. Guarded
by tests/patches/test_deadlocks.py, with programs that can go on, and by
tests/patches/test_threads.py::test_start_of_a_thread_is_not_cut.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import signal
import sys
import threading
import time
from importlib import import_module
from types import CodeType
from typing import Any

from syncless._core.calls import threads
from syncless._core.cpython.functions import original_of
from syncless._core.handling import main_tasklet
from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet, spawn
from syncless._core.wait.sync import Event, Waits
from syncless.patches import preemption, signals
from syncless.patches.registry import instances_of

AGAIN, LATEST = 0.1, 60.0
"""Seconds until the next look, if the last one may have come too early: as long as the main thread has waited
so far, within these bounds."""
OURS = {signal.SIGINT, preemption.NUMBER} | {getattr(signal, name) for name in threads.FAULTS}
"""Signals that no program waits for."""

_at_end = False
"""Whether the main thread was only waiting for the others to end."""
_looked = -AGAIN
_seen: tuple[tuple[int, int], ...] = ()
_judged: tuple[tuple[int, int], ...] = ()
"""The waits of the last look, and those about which _end() has decided."""
_current_frames = original_of(sys._current_frames)
_told: set[tuple[tuple[CodeType, int], ...]] = set()
"""Stacks of the main thread in which the error has been raised: a program that catches it and waits there
again is left alone."""


def look(loop: Loop) -> float | None:
    """Look whether something can still wake the loop, which is about to sleep. Return the seconds after which
    that must be asked again, or None."""
    global _looked, _seen, _judged
    if time.monotonic() < _looked + AGAIN:
        return AGAIN
    _looked = time.monotonic()
    try:
        others, caught = _process()
    except (OSError, LookupError, ValueError):  # the system does not tell
        return None
    main = main_tasklet()
    if main is None or main.status != "waiting":
        return None
    if caught - OURS or signal.getsignal(signal.SIGINT) is not signal.default_int_handler or signals._came:
        return None
    pools = [pool for pool in threads._used if pool._threads]
    idle = sum(len(pool._idle) for pool in pools if not pool._backlog)
    if others != idle or len(_current_frames()) != 1 + idle:  # they may wake somebody, or end
        return min(LATEST, max(AGAIN, main.waiting_seconds or 0.0))
    waits = tuple((tasklet.number, tasklet.switches) for tasklet in loop.tasklets())
    if waits != _seen:  # what another thread has done may be on its way
        _seen = waits
        return AGAIN
    if waits != _judged:
        _judged = waits
        spawn(_end, loop, main).name = "deadlock"
    return None


def _process() -> tuple[int, set[int]]:
    """Return how many other threads the process has, and the signals that it catches."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        told = dict(line.split(":", 1) for line in file)
    bits = int(told["SigCgt"], 16)
    return int(told["Threads"]) - 1, {one for one in signal.valid_signals() if bits >> (one - 1) & 1}


def _end(loop: Loop, main: Tasklet[Any]) -> None:
    """In a tasklet of its own, because finalisers may run here, and may wake others."""
    global _at_end
    debug = import_module("syncless.debug")
    gc.collect()
    if not loop.hopeless():
        return
    stuck = [tasklet for tasklet in loop.tasklets() if tasklet.status == "waiting"]
    if _waits_for_event(main) and not Waits().circles():
        return
    place = _place(main)
    if place in _told:
        return
    if not _told:
        print(
            f"syncless: deadlock: nothing can wake this program any more\n{debug.format_stuck(stuck)}",
            end="",
            file=sys.stderr,
            flush=True,
        )
    _told.add(place)
    _at_end = _at_end or place[-1][0].co_name in ("_shutdown", "shutdown")
    others = f" (threads and tasklets that wait: {len(stuck)})" if stuck[1:] else ""
    loop.interrupt(debug.Deadlock(f"nothing can wake the main thread any more{others}"))


@atexit.register
def _fail() -> None:
    """The interpreter ignores an error at the end, and its exit status would be 0."""
    if not _at_end:
        return
    for one in gc.get_objects():
        if issubclass(type(one), (io.TextIOWrapper, io.BufferedWriter)):
            with contextlib.suppress(Exception):
                one.flush()
    os._exit(1)


def _waits_for_event(main: Tasklet[Any]) -> bool:
    """Return whether it waits until something is told, perhaps only by Ctrl-C."""
    on, frame = main.waiting_object, main.frame
    if isinstance(on, Event):  # one by which another thread is joined, from Python 3.13 on, is ours
        return frame is not None and frame.f_globals.get("__name__") != "syncless.patches.threads"
    return any(on in event._cond._waiters for event in instances_of(threading.Event))  # type: ignore[attr-defined]


def _place(main: Tasklet[Any]) -> tuple[tuple[CodeType, int], ...]:
    places = []
    frame = main.frame
    while frame is not None:
        places.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(places)
