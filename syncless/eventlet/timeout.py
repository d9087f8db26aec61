"""Timeout as eventlet has it: it starts when it is made, and is raised in the green thread that has made
it."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from syncless._core import timeout
from syncless.eventlet.support import greenlets

__all__ = ["Timeout", "is_timeout", "with_timeout", "wrap_is_timeout"]

_UNSET = object()


class Timeout(timeout.Timeout):
    """Timeout(5) raises itself in 5 seconds, Timeout(5, exception) the exception. None never comes.

    As a context manager it is cancelled at the end of the block; with False for the exception it ends the
    block and nothing is raised.
    """

    is_timeout = True
    _timer: Any = None

    def __init__(self, seconds: float | None = None, exception: Any = None) -> None:
        super().__init__(seconds, None if exception is True else exception)
        self.start()

    def start(self) -> None:
        if self.pending:
            raise AssertionError(f"{self!r} is already started")
        if self.seconds is not None and self.seconds <= 0:
            # after what is ready now, in the order of making: a timer of the loop would come before
            error = self if self.exception is None or self.exception is False else self.exception
            self._timer = greenlets.find_hub().schedule_call_global(0, greenlets.getcurrent().throw, error)
        elif not greenlets.in_hub():
            super().start()

    @property
    def pending(self) -> bool:
        if self._timer is not None:
            return bool(self._timer.pending)
        return super().pending

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().cancel()

    close = cancel

    def __enter__(self) -> Timeout:
        if not self.pending:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.cancel()
        return value is self and self.exception is False

    def __repr__(self) -> str:
        state = "pending" if self.pending else ""
        seconds = "" if self.seconds is None else f"{self.seconds} seconds"
        error = "" if self.exception in (None, True) else f"exception={self.exception!r}"
        return f"<{' '.join(filter(None, (type(self).__name__, state, seconds, error)))}>"

    def __str__(self) -> str:
        if self.seconds is None:
            return ""
        plural = "" if self.seconds == 1 else "s"
        if self.exception in (None, True):
            return f"{self.seconds} second{plural}"
        if self.exception is False:
            return f"{self.seconds} second{plural} (silent)"
        return f"{self.seconds} second{plural} ({self.exception})"


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
