"""Green threads: spawn(), spawn_n(), spawn_after(), kill() and sleep()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless._core.current import current
from syncless._core.current import sleep as _sleep
from syncless._core.tasklet import Tasklet
from syncless.eventlet.hubs import get_hub
from syncless.eventlet.hubs.hub import Timer
from syncless.eventlet.support import greenlets
from syncless.eventlet.support.greenlets import getcurrent, greenlet
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


_AT_ONCE = 1e-9
"""Seconds. Fact: programs of eventlet's call sleep(0) to let all others run, and events come in. Decision: it
is a sleep until all that are ready have had their turns and there was a look for events, not a turn's end."""


def sleep(seconds: float = 0) -> None:
    """Let other green threads run for so many seconds; 0 is until each that is ready has run."""
    _sleep(seconds if seconds > 0 else _AT_ONCE)


class GreenThread(greenlet):
    """What spawn() returns: a green thread whose outcome wait() gives."""

    def __init__(
        self,
        seconds: float,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._links: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._resolved = False
        Tasklet.__init__(self, self._live, seconds, function, args, kwargs)

    def wait(self) -> Any:
        """Wait for the end; return what the function returned, or raise what it raised."""
        if not self._resolved:  # else its links run, which may ask
            self.join()
        if self._error is not None:
            raise self._error
        return self._value

    def link(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Call callback(self, *args, **kwargs) at the end; at once if it has ended."""
        self._links.append((callback, args, kwargs))
        if self._resolved:
            self._ended()

    def unlink(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:  # type: ignore[override]
        """Remove a link. Return whether there was one."""
        link = (callback, args, kwargs)
        if link not in self._links:
            return False
        self._links.remove(link)
        return True

    def _ended(self) -> None:
        """Its outcome is known."""
        self._resolved = True
        while self._links:
            callback, args, kwargs = self._links.pop(0)
            callback(self, *args, **kwargs)

    def kill(self, *arguments: Any) -> None:  # type: ignore[override]
        """Raise GreenletExit, or another exception, in it. If it has not begun, it never will."""
        kill(self, *arguments)

    def cancel(self, *arguments: Any) -> None:
        """The same if it has not begun; else do nothing."""
        cancel(self, *arguments)


def spawn(function: Callable[..., Any], *args: Any, **kwargs: Any) -> GreenThread:
    """Call the function in a green thread of its own."""
    return GreenThread(0, function, args, kwargs)


def spawn_n(function: Callable[..., Any], *args: Any, **kwargs: Any) -> greenlet:
    """The same, for code that does not want the outcome."""
    return greenlet(function, *args, **kwargs)


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


def kill(g: Any, *throw_args: Any) -> None:
    """End a green thread: raise GreenletExit, or another exception, where it waits."""
    if g.dead:
        return
    if isinstance(g, Tasklet) and current() is g:
        raise greenlets.exception_of(throw_args)
    g.throw(*throw_args)


def cancel(g: Any, *throw_args: Any) -> None:
    """End a green thread if it has not begun."""
    if not g:
        kill(g, *throw_args)
