"""Entries of the error log, with the trace of the request that they are about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from syncless.http.log.errorlog import stack_of


class Entry(NamedTuple):
    """An entry of the error log."""

    time: int
    """ns since 1970."""
    level: int
    message: str
    traceparent: str
    """Of the request's span, or ""."""
    request: str
    """Its ID, or ""."""
    error: str
    """The type of the exception, or ""."""
    text: str
    """Of the exception."""
    stack: str


def observer(put: Callable[[Entry], None]) -> Callable[[int, str, BaseException | None, Any], None]:
    """Return a function for ErrorLog.also, which calls `put` with an Entry."""

    def note(level: int, message: str, error: BaseException | None, request: Any) -> None:
        ids = getattr(request, "ids", None)
        told = ("", "", "") if error is None else (type(error).__qualname__, str(error), stack_of(error))
        put(
            Entry(
                time.time_ns(),
                level,
                message,
                "" if ids is None else ids.traceparent,
                "" if request is None else request.id,
                *told,
            )
        )

    return note
