"""Where a tasklet or a task stands: the line of the application, rather than those of libraries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import CoroutineType, FrameType, GeneratorType
from typing import Any

from syncless._core.tasklet import Tasklet

MOST_FRAMES = 200

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = os.path.dirname(os.__file__)


def place_of(frame: FrameType | None) -> str | None:
    """Return the innermost line of the application among this frame and its callers, or else that of a
    library."""
    return _told(_callers(frame))


def place_of_task(task: Any) -> tuple[str | None, str | None]:
    """Return the library's coroutine that the task awaits, and the line of the application that awaits it."""
    frames: list[FrameType] = []
    awaited = None
    coroutine = task.get_coro()
    while len(frames) < MOST_FRAMES:
        if type(coroutine) is CoroutineType:
            frame, inner = coroutine.cr_frame, coroutine.cr_await
        elif type(coroutine) is GeneratorType:
            frame, inner = coroutine.gi_frame, coroutine.gi_yieldfrom
        else:
            break
        if frame is None:
            break
        frames.append(frame)
        awaited = coroutine.__qualname__ if _is_library(frame.f_code.co_filename) else None
        coroutine = inner
    return awaited, _told(reversed(frames))


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _told(frames: Iterator[FrameType]) -> str | None:
    """Return the line of the first frame of the application, or else of a library. The innermost frame comes
    first."""
    best: FrameType | None = None
    for frame in frames:
        file = frame.f_code.co_filename
        if not file.startswith((_HERE, "<frozen")):
            best = best or frame
            if not _is_library(file):
                best = frame
                break
    if best is None:
        return None
    return f"{best.f_code.co_filename}:{best.f_lineno} in {best.f_code.co_name}"


def _is_library(file: str) -> bool:
    return "site-packages" in file or file.startswith(_LIBRARIES)


def place_of_wait(tasklet: Tasklet[Any]) -> str | None:
    """Return where a tasklet stands, or the asyncio task for which it stands."""
    task = getattr(tasklet, "task", None)
    return place_of(tasklet.frame) if task is None else place_of_task(task)[1]
