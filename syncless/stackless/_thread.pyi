from collections.abc import Callable
from typing import Any

from syncless._core.loop import Loop

class Thread: ...

_ScheduleCallback = Callable[[Any, Any], object]

def when_idle(loop: Loop) -> None: ...
def set_schedule_callback(callback: _ScheduleCallback | None) -> _ScheduleCallback | None:
    """Calls callback(before, next) at each switch, in the tasklet that goes on; None stops that. It must not
    switch. Returns the previous callback."""

def get_schedule_callback() -> _ScheduleCallback | None:
    """The present callback, or None."""
