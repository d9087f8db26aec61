import socket
from collections.abc import Callable
from typing import Any

from syncless._core.tasklet import Tasklet
from syncless._core.wait.select import Case

class Thrown: ...
class Carriers: ...
class Recorder: ...
class Observer: ...

class Observers(Observer):
    observers: tuple[Observer, ...]
    def __init__(self, observers: tuple[Observer, ...] = ()) -> None: ...

class Runnable:
    """Something that the loop runs at its base when its turn comes."""

class BaseTasklet(Runnable):
    """The part of a tasklet that the engine knows."""

    switches: int

class Meeting:
    """Something that counts the tasklets that wait in its queues."""

class StandIn(BaseTasklet): ...

class Scheduler:
    main: Tasklet[Any]
    parked_count: int
    current: Tasklet[Any] | None
    def tasklets(self) -> list[Tasklet[Any]]: ...

def set_lookup(function: Callable[[socket.socket, Any], Any]) -> None: ...
def set_case_maker(kind: type, maker: Callable[..., Case]) -> None: ...
