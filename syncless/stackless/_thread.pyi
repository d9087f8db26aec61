from collections.abc import Callable
from types import TracebackType
from typing import Any

from syncless._core.loop import Loop
from syncless._core.scheduler import BaseTasklet

class Thread: ...

_ScheduleCallback = Callable[[Any, Any], object]

def when_idle(loop: Loop) -> None: ...
def set_schedule_callback(callback: _ScheduleCallback | None) -> _ScheduleCallback | None:
    """Call callback(before, next) at each switch, in the tasklet that resumes; None stops that. The callback
    must not switch. Return the previous callback."""

def get_schedule_callback() -> _ScheduleCallback | None:
    """Return the current callback, or None."""

class bomb:
    """An exception as a value, which a tasklet raises when it receives the bomb from a channel."""

    type: Any
    value: Any
    traceback: TracebackType | None
    def __init__(
        self, type: Any = None, value: Any = None, traceback: TracebackType | None = None
    ) -> None: ...

_ErrorHandler = Callable[[type[BaseException], BaseException, TracebackType | None], object]

def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None:
    """Call handler(type, value, traceback) for exceptions that no tasklet has caught; None: raise them in
    run(). Return the previous handler."""

class Guard:
    """The attributes dont_raise, exception_handler and context_manager_getter of one tasklet."""

    def __call__(
        self,
        one: BaseTasklet,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Call the function of a tasklet, inside the context manager that is made for the tasklet. Exceptions
        of the context manager itself are raised."""
