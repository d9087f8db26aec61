from collections.abc import Callable
from types import TracebackType
from typing import Any

class bomb:
    type: Any
    value: Any
    traceback: TracebackType | None
    def __init__(
        self, type: Any = None, value: Any = None, traceback: TracebackType | None = None
    ) -> None: ...

_ErrorHandler = Callable[[type[BaseException], BaseException, TracebackType | None], object]

def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None: ...
