from collections.abc import Callable
from typing import Any

from syncless._core.readyqueue import ReadyQueue
from syncless._core.tasklet import Tasklet

class Runnable: ...

class BaseTasklet(Runnable):
    switches: int

class Meeting: ...
class StandIn(BaseTasklet): ...

class Scheduler(ReadyQueue):
    main: Tasklet
    parked_count: int
    def tasklets(self) -> list[Tasklet]: ...

_ErrorHandler = Callable[[Any, BaseException], object]

def set_error_handler(handler: _ErrorHandler | None) -> _ErrorHandler | None: ...
