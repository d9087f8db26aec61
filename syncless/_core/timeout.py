"""Timeout: bounds whatever a block of code waits for (as gevent's class of that name)."""

from __future__ import annotations

from types import TracebackType
from typing import Literal

from syncless._core.tasklet import Alarm


class Timeout(BaseException):
    """Raised in the tasklet that started it when its time is over.

    ::

        with Timeout(5):            # raises this Timeout after 5 seconds inside the block
            page = fetch(url)

        with Timeout(5, False):     # leaves the block silently after 5 seconds
            page = fetch(url)

        with Timeout(5, KeyError("slow")):      # raises that instead
            page = fetch(url)

    A BaseException, so that ``except Exception`` inside the block does not swallow it. ``seconds`` is an int or float; None never
    fires.
    """

    def __init__(self, seconds: float | None = None, exception: BaseException | type[BaseException] | Literal[False] | None = None):
        super().__init__(seconds)
        self.seconds = seconds
        self.exception = exception
        if exception is None or exception is False:
            self._raised: BaseException = self
        else:
            self._raised = exception() if isinstance(exception, type) else exception
        self._alarm = Alarm(self._raised)

    def start(self) -> None:
        """Starts the clock, in the current tasklet."""
        self._alarm.start(self.seconds)

    @classmethod
    def start_new(cls, seconds: float | None = None, exception: BaseException | type[BaseException] | None = None) -> Timeout:
        """A started Timeout; end it by cancel()."""
        timeout = cls(seconds, exception)
        timeout.start()
        return timeout

    def cancel(self) -> None:
        """Stops the clock; harmless if it is not running."""
        self._alarm.cancel()

    close = cancel

    @property
    def pending(self) -> bool:
        """Whether the clock runs."""
        return self._alarm.pending

    def __enter__(self) -> Timeout:
        if not self._alarm.pending:
            self._alarm.start(self.seconds)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> bool:
        self._alarm.cancel()
        return value is self and self.exception is False

    def __str__(self) -> str:
        if self.seconds is None:
            return "no time limit"
        return f"{self.seconds} second{'' if self.seconds == 1 else 's'}"


class deadline(Timeout):
    """``with deadline(5):`` bounds all that the block waits for, and raises TimeoutError outside it.

    Deadlines nest: each has its own clock, so an inner one never outlives an outer one. Code in the block that catches Exception does not
    swallow it.
    """

    def __init__(self, seconds: float | None):
        super().__init__(seconds)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> Literal[False]:
        self.cancel()
        if value is self:
            raise TimeoutError(f"the deadline of {self} is over") from None
        return False
