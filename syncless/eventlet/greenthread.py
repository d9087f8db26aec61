"""Green threads: spawn(), spawn_n(), spawn_after(), kill() and sleep()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless.eventlet._greenlet import GreenThread, cancel, kill, sleep, spawn, spawn_n
from syncless.eventlet.hubs import get_hub
from syncless.eventlet.hubs.hub import Timer
from syncless.eventlet.support import greenlets
from syncless.eventlet.support.greenlets import getcurrent
from syncless.eventlet.timeout import Timeout, with_timeout

__all__ = [
    "GreenThread",
    "call_after",
    "call_after_global",
    "call_after_local",
    "cancel",
    "exc_after",
    "getcurrent",
    "kill",
    "sleep",
    "spawn",
    "spawn_after",
    "spawn_after_local",
    "spawn_n",
    "with_timeout",
]

greenlet = greenlets  # for greenlet.GreenletExit


def spawn_after(seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
    """The same as spawn(), in some seconds. cancel() prevents it."""
    return GreenThread(seconds or 0, function, args, kwargs)


def spawn_after_local(seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
    """The same as spawn_after(), unless the current green thread has ended by then."""
    owner = getcurrent()

    def begin() -> Any:
        if owner.dead:
            raise greenlets.GreenletExit
        return function(*args, **kwargs)

    return GreenThread(seconds or 0, begin, (), {})


def call_after_global(seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Timer:
    """Make a green thread that calls the function in some seconds. Return a timer."""
    return get_hub().schedule_call_global(seconds, spawn_n, function, *args, **kwargs)  # type: ignore[no-any-return]


def call_after_local(seconds: float, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Timer:
    """The same, unless the current green thread has ended by then."""
    return get_hub().schedule_call_local(seconds, spawn_n, function, *args, **kwargs)  # type: ignore[no-any-return]


call_after = call_after_local


def exc_after(seconds: float, *throw_args: Any) -> Timeout | Timer:
    """Raise an exception in the current green thread in some seconds. Return a timer."""
    if seconds is None:
        return Timeout(None)
    return get_hub().schedule_call_local(seconds, getcurrent().throw, *throw_args)  # type: ignore[no-any-return]
