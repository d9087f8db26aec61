from collections.abc import Callable
from types import FrameType
from typing import Any

from syncless.stackless._state import StatefulTasklet

_TraceFunction = Callable[[FrameType, str, Any], Any]

class TracedTasklet(StatefulTasklet):
    """A base class of Stackless's tasklets: trace and profile functions of their own."""

    trace_function: _TraceFunction | None
    profile_function: _TraceFunction | None
