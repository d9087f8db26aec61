from collections.abc import Callable
from types import FrameType
from typing import Any

from syncless._core.tasklet import Tasklet

_TraceFunction = Callable[[FrameType, str, Any], Any]

class TracedTasklet(Tasklet[Any]):
    trace_function: _TraceFunction | None
    profile_function: _TraceFunction | None
