"""Reports of an asyncio loop about its callbacks, in asyncio's words."""

from __future__ import annotations

import asyncio
from asyncio import base_events, format_helpers
from typing import Any


def describe(handle: Any) -> str:
    """The repr() of a handle."""
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
    """The callback raised."""
    context = {"message": f"Exception in callback {_source(handle)}", "exception": error, "handle": handle}
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    loop.call_exception_handler(context)


def tell_slow(loop: Any, handle: Any, callback: Any, seconds: float) -> None:
    """In debug mode: nothing else of the loop could run for so long."""
    if seconds >= loop.slow_callback_duration:
        task = getattr(callback, "__self__", None)
        base_events.logger.warning(  # type: ignore[attr-defined]
            "Executing %s took %.3f seconds", task if isinstance(task, asyncio.Task) else handle, seconds
        )


def _source(handle: Any) -> str:
    return format_helpers._format_callback_source(  # type: ignore[attr-defined, no-any-return]
        handle._callback, handle._args
    )
