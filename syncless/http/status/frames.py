"""Where in the application a tasklet or an asyncio task stands.

Only looks: it calls no code of the application, and may be called in any thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import CoroutineType, FrameType, GeneratorType
from typing import Any

MOST_FRAMES = 200

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES = os.path.dirname(os.__file__)


def place_of(frame: FrameType | None) -> str | None:
    """The innermost line of the application among this frame and its callers, else of a library."""
    return _told(_callers(frame))


def place_of_task(task: Any) -> tuple[str | None, str | None]:
    """The library's coroutine that the task awaits, and the line of the application that does so."""
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
    """Of these frames, the innermost first, the first one that is the application's, else any library's."""
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
