"""Reports of an asyncio loop about its callbacks, in asyncio's words."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from asyncio import base_events, format_helpers
from types import FrameType
from typing import Any, NamedTuple

logger = base_events.logger  # type: ignore[attr-defined]

_LIBRARIES = tuple(
    os.path.join(folder, "")
    for folder in {os.path.dirname(os.path.dirname(__file__)), *sysconfig.get_paths().values()}
    if folder
)
"""Folders whose code is not the program's own."""


class Site(NamedTuple):
    """The line of the program that waits, and the function that it has called."""

    file: str
    line: int
    function: str


def waiting_site(why: str) -> Site | None:
    """Return where the running code is about to wait, in its author's view: the innermost line outside
    libraries, and the library function that this line calls. Return None for a library's own callback."""
    frame: FrameType | None = sys._getframe(1)
    inner = None
    while frame is not None and _is_library(frame):
        inner, frame = frame, frame.f_back
    if frame is None:
        return None
    called = "" if inner is None else f"{inner.f_globals.get('__name__')}.{inner.f_code.co_name}"
    if not called or called.startswith("syncless."):
        called = f"a call ({why})"
    return Site(frame.f_code.co_filename, frame.f_lineno, called)


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(("<frozen", *_LIBRARIES)) or "/site-packages/" in file or "/dist-packages/" in file


def tell_wait(task: Any, site: Site, seconds: float) -> None:
    """Report a callback or task that has waited in calls that would block any other loop."""
    logger.warning(
        "waited %.3f s in %s at %s:%d; only this task was blocked: %s",
        *(seconds, site.function, site.file, site.line, task),
    )


def describe(handle: Any) -> str:
    """Return the repr() of a handle."""
    said = [type(handle).__name__]
    if handle.cancelled():
        said.append("cancelled")
    if handle._callback is not None:
        said.append(_source(handle))
    if handle._source_traceback:
        frame = handle._source_traceback[-1]
        said.append(f"created at {frame[0]}:{frame[1]}")
    return f"<{' '.join(said)}>"


def tell_failure(loop: Any, handle: Any, error: BaseException) -> None:
    """Report an exception of the callback."""
    context = {"message": f"Exception in callback {_source(handle)}", "exception": error, "handle": handle}
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    loop.call_exception_handler(context)


def tell_slow(loop: Any, handle: Any, callback: Any, seconds: float) -> None:
    """Report a callback that blocked the loop for that many seconds, in debug mode."""
    if seconds >= loop.slow_callback_duration:
        task = getattr(callback, "__self__", None)
        logger.warning(
            "Executing %s took %.3f seconds", task if isinstance(task, asyncio.Task) else handle, seconds
        )


def _source(handle: Any) -> str:
    return format_helpers._format_callback_source(  # type: ignore[attr-defined, no-any-return]
        handle._callback, handle._args
    )
