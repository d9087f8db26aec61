from collections.abc import Callable
from typing import Any, TypeVar

from syncless._core.scheduler import BaseTasklet
from syncless._core.tasklet import Tasklet

_T = TypeVar("_T")

def current() -> Tasklet[Any] | None:
    """The running tasklet. That is the main tasklet for code that was not spawned, and None in a callback of
    the loop."""

def tasklets() -> list[Tasklet[Any]]:
    """All live tasklets of this thread, oldest first."""

def may_park() -> bool: ...
def give_way() -> None: ...
def uninterrupted(function: Callable[..., _T], *args: Any) -> _T: ...
def directly(function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T: ...
def next_thrown() -> BaseException | None: ...
def sleep(seconds: float = 0) -> None:
    """Parks the tasklet for that many seconds (int or float). With 0 it only lets other ready tasklets
    run."""

def park(why: str = "wake()", timeout: float | None = None) -> tuple[bool, Any]:
    """Stops the current tasklet until wake(tasklet, value); returns (True, value), or (False, None) after
    `timeout` seconds."""

def wake(tasklet: BaseTasklet, value: Any = None) -> bool:
    """Wakes a tasklet that waits in park(), with a value. May be called in any thread. Returns False if the
    tasklet does not wait there."""
