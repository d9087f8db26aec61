from collections.abc import Callable
from types import TracebackType
from typing import Any

from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet

class Event:
    """A flag that tasklets wait for, like threading.Event."""
    def is_set(self) -> bool: ...
    def ready(self) -> bool: ...
    def set(self) -> None:
        """Set the flag and wake all waiters. Any thread may call set()."""
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for set(), for at most `timeout` seconds. Return False after the timeout."""
    def add_done_callback(self, callback: Callable[[Event], object]) -> None:
        """Call `callback(event)` once at the next set(), or immediately if the event is set. The callback
        must not block; its errors are reported."""
    def remove_done_callback(self, callback: Callable[[Event], object]) -> int:
        """Remove the callback. Return how often the callback was registered."""

class Semaphore:
    """A semaphore that admits at most `value` tasklets between acquire() and
    release(), like threading.Semaphore."""

    value: int
    holder: int
    def __init__(self, value: int = 1) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a unit, waiting for at most `timeout` seconds. Return whether a unit was taken."""
    def release(self, n: int = 1) -> None:
        """Give back n units. Any thread may call release()."""
    def locked(self) -> bool:
        """Return whether acquire() would wait."""
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Lock(Semaphore):
    """A lock that one tasklet at a time can hold; any tasklet may release it, as with
    threading.Lock."""
    def __init__(self) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        """Take the lock, waiting for at most `timeout` seconds (-1 means forever). Return whether the lock
        was taken."""
    def release(self) -> None:  # type: ignore[override]
        """Release the lock, or pass it to the tasklet that has waited longest. Raise RuntimeError if it is
        not held."""

class Waits:
    def label(self, tasklet: Tasklet[Any]) -> str: ...
    def owner(self, ident: int) -> Tasklet[Any] | None: ...
    def holder(self, thing: object) -> Tasklet[Any] | None: ...
    def endless(self) -> set[Tasklet[Any]]: ...
    def wakers(self) -> list[object]: ...
    def circles(self) -> list[list[Tasklet[Any]]]: ...

def may_be_circles(loop: Loop) -> bool: ...
