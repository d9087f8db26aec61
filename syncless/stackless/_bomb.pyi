from collections.abc import Callable
from types import TracebackType
from typing import Any

class bomb:
    """An exception as a value: a tasklet that receives it from a channel raises it."""

    type: Any
    value: Any
    traceback: TracebackType | None
    def __init__(
        self, type: Any = None, value: Any = None, traceback: TracebackType | None = None
    ) -> None: ...

_ErrorHandler = Callable[[type[BaseException], BaseException, TracebackType | None], object]

def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None:
    """handler(type, value, traceback) of exceptions that no tasklet has caught; None: they are raised in
    run(). Returns the last one."""
