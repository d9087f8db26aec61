from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from syncless._core.scheduler import BaseTasklet
from syncless._core.tasklet import Tasklet

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

def wait_readable(fd: int | _HasFileno, timeout: float | None = None) -> bool:
    """Park the tasklet until the descriptor (an int or an object with fileno()) can be read without blocking.

    `timeout` is in seconds; None waits forever. Return False after the timeout. The descriptor need not be a
    socket of syncless.
    """

def wait_writable(fd: int | _HasFileno, timeout: float | None = None) -> bool:
    """Park the tasklet until the descriptor can be written without blocking; see wait_readable()."""

_T = TypeVar("_T")

def current() -> Tasklet[Any] | None:
    """Return the running tasklet. The result is the main tasklet in code that was not spawned, and None in a
    callback of the loop."""

def tasklets() -> list[Tasklet[Any]]:
    """Return all live tasklets of this thread, oldest first."""

def may_park() -> bool: ...
def give_way() -> None: ...
def uninterrupted(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
def directly(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
def next_thrown() -> BaseException | None: ...

class ThrownHere:
    def __enter__(self) -> list[BaseException]: ...
    def __exit__(self, *error: object) -> None: ...

def sleep(seconds: float = 0) -> None:
    """Park the tasklet for that many seconds (int or float). 0 only yields to other ready tasklets."""

def park(why: str = "wake()", timeout: float | None = None) -> tuple[bool, Any]:
    """Park the current tasklet until wake(tasklet, value) is called. Return (True, value), or (False, None)
    after `timeout` seconds."""

def wake(tasklet: BaseTasklet, value: Any = None) -> bool:
    """Wake a tasklet that waits in park(), and pass it the value. Any thread may call wake(). Return False if
    the tasklet does not wait in park()."""
