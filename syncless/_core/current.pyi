from collections.abc import Callable
from typing import Any, TypeVar

from syncless._core.scheduler import BaseTasklet
from syncless._core.tasklet import Tasklet

_T = TypeVar("_T")

def current() -> Tasklet[Any] | None:
    """current() -> BaseTasklet | None

    The running tasklet; for code that was not spawned the main tasklet; None inside a callback of the
    loop.
    """

def tasklets() -> list[Tasklet[Any]]:
    """tasklets() -> list

    All live tasklets of this thread, oldest first."""

def may_park() -> bool: ...
def give_way() -> None: ...
def uninterrupted(function: Callable[..., _T], *args: Any) -> _T: ...
def next_thrown() -> BaseException | None: ...
def sleep(seconds: float = 0) -> None:
    """sleep(seconds=0) -> None

    Lets others run for that many seconds (int or float); 0 lets those run that are ready."""

def park(why: str = "wake()", timeout: float | None = None) -> tuple[bool, Any]:
    """park(str why='wake()', timeout=None)

    Stops the current tasklet until wake(tasklet, value); returns (True, value), or (False, None) after
    `timeout` seconds.
    """

def wake(tasklet: BaseTasklet, value: Any = None) -> bool:
    """wake(BaseTasklet tasklet, value=None) -> bool

    Lets a tasklet that stopped in park() go on with the value. From any thread. False if it does not wait
    there.
    """
