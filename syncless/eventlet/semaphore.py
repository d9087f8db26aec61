"""Semaphore, BoundedSemaphore and CappedSemaphore. Waiters get their turns in the order of their coming."""

from __future__ import annotations

from syncless.eventlet._waits import Semaphore

__all__ = ["BoundedSemaphore", "CappedSemaphore", "Semaphore"]


class BoundedSemaphore(Semaphore):
    """A semaphore that cannot be released more often than it was acquired: ValueError."""

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self.original_counter = self.counter

    def release(self, blocking: bool = True) -> bool:  # type: ignore[override]
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
