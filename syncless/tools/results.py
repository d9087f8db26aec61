"""AsyncResult: a value that is set later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from syncless._core.exits import TaskletExit, TaskletKilled
from syncless._core.scheduler import set_case_maker
from syncless._core.tasklet import Tasklet
from syncless._core.wait.select import EventCase
from syncless._core.wait.sync import Event

T = TypeVar("T")


class AsyncResult(Generic[T]):
    """A value or an exception that is set once. Any number of tasklets, in any threads, may wait for it."""

    def __init__(self) -> None:
        self._done = Event()
        self._unset = [True]  # empty once it is set: taking the item is one step for all threads
        self._value: Any = None
        self._exception: BaseException | None = None
        self._callbacks: dict[Any, Callable[[Any], object]] = {}

    def _set(self, value: Any, exception: BaseException | None) -> None:
        try:
            self._unset.pop()
        except IndexError:
            raise RuntimeError("the result has already been set") from None
        self._value, self._exception = value, exception
        self._done.set()

    def set(self, value: T = None) -> None:  # type: ignore[assignment]
        """Set the value. Raise RuntimeError if the result is already set."""
        self._set(value, None)

    def set_exception(self, exception: BaseException) -> None:
        """Set an exception, which get() raises. Raise RuntimeError if the result is already set."""
        if not isinstance(exception, BaseException):
            raise TypeError(f"set_exception() needs an exception, not {type(exception).__name__}")
        self._set(None, exception)

    def __call__(self, source: Tasklet[T]) -> None:
        """Take over the result or exception of a tasklet, as its done callback."""
        exception = source.exception()
        if isinstance(exception, TaskletExit):  # which would end the tasklet that asks for the result
            killed = TaskletKilled(f"{source.name} was killed")
            killed.__cause__ = exception
            exception = killed
        self._set(None if exception else source.result(), exception)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Return the value, or raise the exception. Raise TimeoutError if the result is not set within
        `timeout` seconds, or immediately unless `block`."""
        if not self._done.is_set() and not (block and self._done.wait(timeout)):
            raise TimeoutError("the result is not ready yet")
        if self._exception is not None:
            raise self._exception
        return self._value  # type: ignore[no-any-return]

    def get_nowait(self) -> T:
        return self.get(False)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the result is set, for at most `timeout` seconds. Return whether it is set."""
        return self._done.wait(timeout)

    def ready(self) -> bool:
        """Return whether the result is set."""
        return self._done.is_set()

    def successful(self) -> bool:
        """Return whether the result is a value rather than an exception."""
        return self._done.is_set() and self._exception is None

    @property
    def value(self) -> T | None:
        """The value, or None if there is none."""
        return self._value  # type: ignore[no-any-return]

    @property
    def exception(self) -> BaseException | None:
        return self._exception

    def add_done_callback(self, callback: Callable[[AsyncResult[T]], object]) -> None:
        """Call `callback(result)` when the result is set, or immediately if it is already set. The callback
        must not block; its errors are reported."""
        told = self._callbacks.setdefault(callback, lambda _: callback(self))
        self._done.add_done_callback(told)

    def remove_done_callback(self, callback: Callable[[AsyncResult[T]], object]) -> int:
        """Remove the callback; return how often it was registered."""
        told = self._callbacks.pop(callback, None)
        return 0 if told is None else self._done.remove_done_callback(told)


set_case_maker(AsyncResult, lambda result: EventCase(result._done))
