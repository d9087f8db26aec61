"""Timeout as eventlet has it: it starts when it is made, and is raised in the green thread that has made
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless.eventlet._waits import Timeout

__all__ = ["Timeout", "is_timeout", "with_timeout", "wrap_is_timeout"]

_UNSET = object()


def with_timeout(seconds: float | None, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the function, for at most so many seconds. Then return `timeout_value`, or raise Timeout if that
    is not given."""
    otherwise = kwargs.pop("timeout_value", _UNSET)
    clock = Timeout(seconds)
    try:
        return function(*args, **kwargs)
    except Timeout as error:
        if error is clock and otherwise is not _UNSET:
            return otherwise
        raise
    finally:
        clock.cancel()


def wrap_is_timeout(base: Any) -> Any:
    """Mark a class, or what a function returns, so that is_timeout() is true of it."""
    if isinstance(base, type):
        vars_of: Any = base
        vars_of.is_timeout = True
        return base

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        made = base(*args, **kwargs)
        made.is_timeout = True
        return made

    return wrapped


def is_timeout(error: object) -> bool:
    """Return whether an exception means that time is over: one of ours, or a TimeoutError."""
    return bool(getattr(error, "is_timeout", False)) or isinstance(error, TimeoutError)
