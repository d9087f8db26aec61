"""Patches sys._current_frames() and faulthandler.dump_traceback() to show the stacks of all threads,
including those that are tasklets.

Profilers, watchdogs and error reports look stacks up by the thread idents of threading.enumerate(). Fact: the
interpreter knows only OS threads, and the stack that each executes now. Danger: waiting threads that are
tasklets are missing, and the stack of the running one has the main thread's ident. Decision: each tasklet has
its own entry, under the ident that threading.get_ident() returns in it. Applications see requests as threads,
so these are included.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from types import FrameType
from typing import Any

from syncless._core.cpython.functions import original_of
from syncless._core.tasklet import Tasklet
from syncless._core.threadloop import all_loops
from syncless.patches.registry import Patcher
from syncless.patches.types.locks import number_of

_current_frames = original_of(sys._current_frames)
_dump_traceback = original_of(faulthandler.dump_traceback)
_write = original_of(os.write)
SHOWN_FRAMES = 100
"""Of each stack, as faulthandler shows them."""


def current_frames() -> dict[int, FrameType]:
    """Return the frames of all threads, including those that are tasklets."""
    found = _current_frames()
    found.update(_stacks(found))
    return found


def _stacks(executed: dict[int, FrameType]) -> dict[int, FrameType]:
    """Return the frames of all tasklets. `executed` are those of the OS threads."""
    found = {}
    for loop in all_loops():
        on_thread = _without_ours(executed.get(loop.thread_id))
        for tasklet in loop.tasklets():
            if not isinstance(tasklet, Tasklet):
                continue  # one of Stackless
            frame = tasklet.frame if tasklet.status != "running" else on_thread
            if frame is None and tasklet.status == "waiting":
                frame = on_thread  # the loop looks for events in the midst of its wait
            if frame is not None:
                found[number_of(tasklet)] = frame
    return found


def _without_ours(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside this file."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def dump_traceback(file: Any = None, all_threads: bool = True) -> None:
    """Write tracebacks like faulthandler.dump_traceback; waiting threads that are tasklets follow the
    others."""
    file = sys.stderr if file is None else file
    _dump_traceback(file, all_threads)
    if all_threads:
        executed = _current_frames()
        shown = {id(_without_ours(frame)) for frame in executed.values()}
        fd = file if isinstance(file, int) else file.fileno()
        for number, frame in _stacks(executed).items():
            if id(frame) not in shown:
                _write(fd, _as_text(number, frame).encode(errors="backslashreplace"))


def _as_text(number: int, frame: FrameType | None) -> str:
    lines = [f"\nThread 0x{number:016x} (most recent call first):\n"]
    while frame is not None and len(lines) <= SHOWN_FRAMES:
        code = frame.f_code
        lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}\n')
        frame = frame.f_back
    return "".join(lines) + ("" if frame is None else "  ...\n")


def patch(patcher: Patcher) -> None:
    why = "does not know of threads that are tasklets"
    patcher.rebind(sys, "_current_frames", current_frames, why)
    patcher.rebind(faulthandler, "dump_traceback", dump_traceback, why)
