from collections.abc import Callable
from types import TracebackType
from typing import Any

from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet

class Event:
    """A flag that tasklets wait for (threading.Event)."""
    def is_set(self) -> bool: ...
    def ready(self) -> bool: ...
    def set(self) -> None:
        """Raises the flag and wakes all waiters. May be called in any thread."""
    def clear(self) -> None: ...
    def wait(self, timeout: float | None = None) -> bool:
        """Waits for set(), at most `timeout` seconds. Returns False when they have passed."""
    def add_done_callback(self, callback: Callable[[Event], object]) -> None:
        """`callback(event)` is called once at the next set(); at once if it is set. It must not block; its
        errors are reported."""
    def remove_done_callback(self, callback: Callable[[Event], object]) -> int:
        """Removes the callback; returns how often it was registered."""

class Semaphore:
    """At most that many tasklets are between acquire() and release()
    (threading.Semaphore)."""

    value: int
    holder: int
    def __init__(self, value: int = 1) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Takes a unit, waiting for one at most `timeout` seconds. Returns whether it got one."""
    def release(self, n: int = 1) -> None:
        """Returns n units. May be called in any thread."""
    def locked(self) -> bool:
        """Whether acquire() would wait."""
    def __enter__(self) -> bool: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class Lock(Semaphore):
    """A lock that one tasklet at a time holds; any tasklet may release it (threading.Lock)."""
    def __init__(self) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float | None = -1) -> bool:
        """Takes the lock, waiting at most `timeout` seconds (-1: forever). Returns whether it got it."""
    def release(self) -> None:  # type: ignore[override]
        """Releases the lock, or hands it to the longest waiter. RuntimeError if it is not held."""

class Waits:
    def label(self, tasklet: Tasklet[Any]) -> str: ...
    def owner(self, ident: int) -> Tasklet[Any] | None: ...
    def holder(self, thing: object) -> Tasklet[Any] | None: ...
    def circles(self) -> list[list[Tasklet[Any]]]: ...

def may_be_circles(loop: Loop) -> bool: ...
