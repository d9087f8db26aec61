from typing import Any

from syncless._core.readyqueue import ReadyQueue
from syncless._core.tasklet import Tasklet

class Runnable: ...

class BaseTasklet(Runnable):
    switches: int

class Meeting: ...
class StandIn(BaseTasklet): ...

class Scheduler(ReadyQueue):
    main: Tasklet[Any]
    parked_count: int
    def tasklets(self) -> list[Tasklet[Any]]: ...
