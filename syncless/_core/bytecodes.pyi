from collections.abc import Callable
from typing import Any

from syncless._core.scheduler import Observer
from syncless._core.tasklet import Tasklet

class BytecodeLimit(Observer):
    limit: int
    in_all: bool
    def __init__(self, limit: int, in_all: bool = False) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...

class TurnLimit(BytecodeLimit):
    def __init__(self, limit: int, report: Callable[[Tasklet[Any]], object]) -> None: ...
