"""Event: one green thread sends a value or an exception, any number wait for it."""

from __future__ import annotations

from typing import Any

from syncless._core.current import current, park, wake
from syncless._core.tasklet import Tasklet
from syncless.eventlet.support import greenlets

__all__ = ["NOT_USED", "Event"]


class NOT_USED:
    """Stands for a value that has not been sent."""

    def __repr__(self) -> str:
        return "NOT_USED"


NOT_USED = NOT_USED()  # type: ignore[assignment,misc]


class Event:
    """send() wakes all that wait; wait() returns what is sent, also later."""

    _result: Any = None
    _exc: tuple[Any, ...] | None = None

    def __init__(self) -> None:
        self._waiters: list[Tasklet[Any]] = []
        self.reset()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} waiters={len(self._waiters)} ready={self.ready()}>"

    def reset(self) -> None:
        """Be as new. Raise AssertionError if nothing has been sent."""
        assert self._result is not NOT_USED, "Trying to re-reset() a fresh event."
        self._result, self._exc = NOT_USED, None

    def ready(self) -> bool:
        """Return whether a value or an exception has been sent."""
        return self._result is not NOT_USED

    def has_exception(self) -> bool:
        return self._exc is not None

    def has_result(self) -> bool:
        return self.ready() and self._exc is None

    def poll(self, notready: Any = None) -> Any:
        """Return what wait() would, or `notready` if that would wait."""
        return self.wait() if self.ready() else notready

    def poll_exception(self, notready: Any = None) -> Any:
        return self.wait() if self.has_exception() else notready

    def poll_result(self, notready: Any = None) -> Any:
        return self.wait() if self.has_result() else notready

    def wait(self, timeout: float | None = None) -> Any:
        """Return the value that is sent, or raise the exception; None after `timeout` seconds."""
        outcome = self._result, self._exc
        if not self.ready():
            tasklet = current()
            assert tasklet is not None, "an event cannot be waited for in a call of the hub"
            self._waiters.append(tasklet)
            try:
                woken, outcome = park("eventlet.Event", timeout)
            finally:
                if tasklet in self._waiters:
                    self._waiters.remove(tasklet)
            if not woken:
                return None
        result, exc = outcome
        if exc is not None:
            raise greenlets.exception_of(exc)
        return result

    def send(self, result: Any = None, exc: Any = None) -> None:
        """Wake all that wait, with a value or an exception. Raise AssertionError if something has been
        sent."""
        assert self._result is NOT_USED, f"Trying to re-send() an already-triggered event {self!r}."
        self._result = result
        self._exc = exc if exc is None or isinstance(exc, tuple) else (exc,)
        waiters, self._waiters = self._waiters, []
        for tasklet in waiters:
            wake(tasklet, (result, self._exc))

    def send_exception(self, *args: Any) -> None:
        """The same as send(exc=...), with the arguments of throw()."""
        self.send(None, args)
