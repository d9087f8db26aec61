"""AsyncResult: a value that is not there yet."""

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
    """A value or an exception that is set once. Any number of tasklets, also of other threads, may wait for
    it."""

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
        """Sets the value. RuntimeError if the result is set already."""
        self._set(value, None)

    def set_exception(self, exception: BaseException) -> None:
        """Sets an exception, which get() raises. RuntimeError if the result is set already."""
        if not isinstance(exception, BaseException):
            raise TypeError(f"set_exception() needs an exception, not {type(exception).__name__}")
        self._set(None, exception)

    def __call__(self, source: Tasklet[T]) -> None:
        """As a done callback of a tasklet: takes over what its result() gives or raises."""
        exception = source.exception()
        if isinstance(exception, TaskletExit):  # which would end the tasklet that asks for the result
            killed = TaskletKilled(f"{source.name} was killed")
            killed.__cause__ = exception
            exception = killed
        self._set(None if exception else source.result(), exception)

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Returns the value, or raises the exception. TimeoutError if it is not set within `timeout` seconds,
        or at once without `block`."""
        if not self._done.is_set() and not (block and self._done.wait(timeout)):
            raise TimeoutError("the result is not ready yet")
        if self._exception is not None:
            raise self._exception
        return self._value  # type: ignore[no-any-return]

    def get_nowait(self) -> T:
        return self.get(False)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set, at most `timeout` seconds. Returns whether it is."""
        return self._done.wait(timeout)

    def ready(self) -> bool:
        """Whether it is set."""
        return self._done.is_set()

    def successful(self) -> bool:
        """Whether it is set, to a value."""
        return self._done.is_set() and self._exception is None

    @property
    def value(self) -> T | None:
        """The value, or None."""
        return self._value  # type: ignore[no-any-return]

    @property
    def exception(self) -> BaseException | None:
        return self._exception

    def add_done_callback(self, callback: Callable[[AsyncResult[T]], object]) -> None:
        """`callback(result)` is called when it is set; at once if it is. It must not block; its errors are
        reported."""
        told = self._callbacks.setdefault(callback, lambda _: callback(self))
        self._done.add_done_callback(told)

    def remove_done_callback(self, callback: Callable[[AsyncResult[T]], object]) -> int:
        """Removes the callback; returns how often it was registered."""
        told = self._callbacks.pop(callback, None)
        return 0 if told is None else self._done.remove_done_callback(told)


set_case_maker(AsyncResult, lambda result: EventCase(result._done))
