"""What the tasklets of a run did, as lines: who stopped where, and why."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import threading
from functools import lru_cache
from types import FrameType
from typing import Any
from weakref import WeakSet

from syncless._core.tasklet import Tasklet
from syncless._core.wait.sync import Waits
from syncless.testing.choices import Watch

MOST = 200
"""Lines that are kept, the last ones."""
_PATHS = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ELSEWHERE = (*_PATHS, _OURS, "<")


@lru_cache(4096)
def is_own(file: str) -> bool:
    """Return whether a file is the program's own: neither of the standard library nor an installed
    package."""
    return not file.startswith(_ELSEWHERE) and "-packages" + os.sep not in file


def own_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of the program's own code, from this one on."""
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def where(frame: FrameType, what: str) -> str:
    """Return the line of a frame as text, with what happens there."""
    file, line = frame.f_code.co_filename, _line_of(frame)
    source = linecache.getline(file, line).strip()[:70]
    return f"{os.path.basename(file)}:{line} {what}: {source}"


def _line_of(frame: FrameType) -> int:
    """Return its line; where the compiler has added bytecodes that have none, the one before."""
    code, line = frame.f_code, frame.f_code.co_firstlineno
    for start, _, one in code.co_lines():
        line = one or line if start <= frame.f_lasti else line
    return frame.f_lineno or line


_recording: list[list[str]] = []
_hidden: WeakSet[Tasklet[Any]] = WeakSet()


def hide(tasklet: Tasklet[Any]) -> None:
    """Leave out the end of a tasklet that is none of the program's."""
    _hidden.add(tasklet)


def note(line: str) -> None:
    """Add a line to the interleaving that is recorded now, if one is."""
    for lines in _recording:
        lines.append(line)


class Interleaving:
    """The switches of one run, while it is on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[int, str] = {}
        self._threads: dict[int, str] = {}
        """Names of threads that have not got far enough to be known."""
        self._last = 0
        """The number of the tasklet of the last line if it was only interrupted."""
        self._watch = Watch(self._stopped, self._went_on)

    def start(self) -> None:
        _recording.append(self.lines)
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()
        _recording.remove(self.lines)

    def name(self, tasklet: Tasklet[Any]) -> str:
        """Return a letter, in the order of their first lines, and what the program calls it."""
        known = self._names.get(tasklet.number)
        if known is None:
            count = len(self._names)
            letter = chr(ord("A") + count) if count < 26 else f"T{count}"
            known = self._names[tasklet.number] = f"{letter} ({_called(tasklet, self._threads)})"
        return known

    def _went_on(self, tasklet: Tasklet[Any]) -> None:
        if tasklet.number not in self._names and len(_starting) == 1 and tasklet not in _hidden:
            self._threads[tasklet.number] = next(iter(_starting)).name
        if self._last == tasklet.number and self.lines:
            self.lines.pop()  # nobody else was ready
        self._last = 0

    def _stopped(self, tasklet: Tasklet[Any]) -> None:
        self._last = 0
        frame = own_frame(sys._getframe())
        if frame is None:
            if tasklet.status not in ("ready", "waiting") and tasklet not in _hidden:
                self.lines.append(f"{self.name(tasklet)} ends")
            return
        what = "is interrupted"
        if tasklet.waiting_for is not None:
            what = f"waits for {self._wanted(tasklet)}"
        else:
            self._last = tasklet.number
        self.lines.append(f"{self.name(tasklet)} {where(frame, what)}")
        del self.lines[:-MOST]

    def _wanted(self, tasklet: Tasklet[Any]) -> str:
        """Return words for what the tasklet waits for, and its holder."""
        why, wanted = str(tasklet.waiting_for), tasklet.waiting_object
        holder = wanted if isinstance(wanted, Tasklet) else None
        if holder is None and wanted is not None:
            holder = Waits().holder(wanted)
        if holder is None or holder is tasklet:
            return why
        return f"{why} of {self.name(holder)}"


_starting: dict[threading.Thread, object] = threading._limbo  # type: ignore[attr-defined]


def _called(tasklet: Tasklet[Any], starting: dict[int, str]) -> str:
    """Without the numbers that are others in each run."""
    if tasklet.is_main:
        return "main"
    thread = threading._active.get(id(tasklet))  # type: ignore[attr-defined]
    name: str = starting.get(tasklet.number, tasklet.name) if thread is None else thread.name
    if found := re.fullmatch(r"Thread-\d+ \((.*)\)", name):
        return found[1]
    if found := re.fullmatch(r"(ThreadPoolExecutor)-\d+(_\d+)", name):
        return found[1] + found[2]
    return re.sub(r"^Thread-\d+$", "thread", name.removesuffix(f"-{tasklet.number}"))
