"""Semaphore, BoundedSemaphore and CappedSemaphore. Waiters get their turns in the order of their coming."""

from __future__ import annotations

from collections import deque
from typing import Any

from syncless._core.current import current, park, wake
from syncless._core.tasklet import Tasklet

__all__ = ["BoundedSemaphore", "CappedSemaphore", "Semaphore"]


class _Waiter:
    __slots__ = ("given", "tasklet")

    def __init__(self, tasklet: Tasklet[Any]) -> None:
        self.tasklet, self.given = tasklet, False


class Semaphore:
    """At most `value` green threads are between acquire() and release()."""

    def __init__(self, value: int = 1) -> None:
        try:
            value = int(value)
        except ValueError:
            raise TypeError(f"a semaphore's value is a number, not {value!r}") from None
        if value < 0:
            raise ValueError(f"a semaphore's value must be at least 0, not {value!r}")
        self.counter = value
        self._waiters: deque[_Waiter] = deque()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} c={self.counter} _w[{len(self._waiters)}]>"

    def locked(self) -> bool:
        """Return whether acquire() would wait."""
        return self.counter <= 0

    def bounded(self) -> bool:
        """Return whether release() would wait: never."""
        return False

    @property
    def balance(self) -> int:
        """Units that are free, or minus the number of waiters."""
        return self.counter - len(self._waiters)

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a unit; wait for one for at most `timeout` seconds. Return whether a unit was taken."""
        if timeout == -1:
            timeout = None
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        if timeout is not None and timeout < 0:
            raise ValueError("timeout value must be strictly positive")
        if self.counter > 0 and not self._waiters:
            self.counter -= 1
            return True
        tasklet = current()
        if not blocking or tasklet is None:
            return False
        waiter = _Waiter(tasklet)
        self._waiters.append(waiter)
        try:
            park("eventlet.Semaphore", timeout)
        except BaseException:
            self._leave(waiter)
            if waiter.given:
                self._give()
            raise
        self._leave(waiter)
        return waiter.given

    def _leave(self, waiter: _Waiter) -> None:
        if not waiter.given and waiter in self._waiters:
            self._waiters.remove(waiter)

    def _give(self) -> None:
        """Hand a unit to the longest waiter that still waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if wake(waiter.tasklet):
                waiter.given = True
                return
        self.counter += 1

    def release(self, blocking: bool = True) -> bool:
        """Give back a unit."""
        if self.counter < 0:  # of a pool that has been made smaller
            self.counter += 1
        else:
            self._give()
        return True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class BoundedSemaphore(Semaphore):
    """A semaphore that cannot be released more often than it was acquired: ValueError."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self.original_counter = self.counter

    def release(self, blocking: bool = True) -> bool:
        if self.counter >= self.original_counter:
            raise ValueError("Semaphore released too many times")
        return super().release(blocking)


class CappedSemaphore:
    """A semaphore whose release() waits while it would exceed the limit."""

    def __init__(self, count: int, limit: int) -> None:
        if count < 0 or limit < count:
            raise ValueError("count must be between 0 and limit")
        self.lower_bound = Semaphore(count)
        self.upper_bound = Semaphore(limit - count)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x} b={self.balance}>"

    def locked(self) -> bool:
        """Return whether acquire() would wait."""
        return self.lower_bound.locked()

    def bounded(self) -> bool:
        """Return whether release() would wait."""
        return self.upper_bound.locked()

    @property
    def balance(self) -> int:
        return self.lower_bound.balance - self.upper_bound.balance

    def acquire(self, blocking: bool = True) -> bool:
        if not blocking and self.locked():
            return False
        self.upper_bound.release()
        try:
            return self.lower_bound.acquire()
        except BaseException:
            self.upper_bound.counter -= 1
            raise

    def release(self, blocking: bool = True) -> bool:
        if not blocking and self.bounded():
            return False
        self.lower_bound.release()
        try:
            return self.upper_bound.acquire()
        except BaseException:
            self.lower_bound.counter -= 1
            raise

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
