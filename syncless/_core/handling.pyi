from collections.abc import Callable
from types import FrameType
from typing import Any

from syncless._core.tasklet import Tasklet

class Signal(BaseException):
    """An exception that is thrown at the main tasklet's carrier and immediately caught by the engine."""

class OnTop(Tasklet[None]):
    """A call on top of the main tasklet, or on top of another such call."""

def main_tasklet() -> Tasklet[Any] | None: ...
def is_main_thread() -> bool: ...
def interrupted_frame(frame: FrameType | None) -> FrameType | None: ...
def call_handler(function: Callable[[int, Any], object], number: int, frame: Any) -> None: ...
