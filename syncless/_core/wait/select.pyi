from collections.abc import Iterable
from typing import Any, TypeVar

from syncless._core.scheduler import StandIn
from syncless._core.wait.queues import Queue

class Selection: ...

class Case(StandIn):
    source: Any
    def __init__(self, source: Any) -> None: ...

class EventCase(Case): ...
class TaskletCase(Case): ...
class SemaphoreCase(Case): ...
class GetCase(Case): ...
class PutCase(Case): ...
class ReceiveCase(Case): ...
class SendCase(Case): ...
class FdCase(Case): ...
class AfterCase(Case): ...

_T = TypeVar("_T")

def set_chance(number: int) -> None: ...
def readable(fd: Any) -> Case:
    """Return a case for select() that is ready when a descriptor (an int, or an object with fileno()) can be
    read without waiting, or has failed."""

def writable(fd: Any) -> Case:
    """Return a case for select() that is ready when a descriptor can be written without waiting, or has
    failed."""

def after(seconds: float | None) -> Case:
    """Return a case for select() that is ready after `seconds`."""

def putting(queue: Queue[_T], item: _T) -> Case:
    """Return a case for select() that puts the item into the queue when there is room."""

def sending(channel: Any, value: Any) -> Case:
    """Return a case for select() that sends the value on the channel when there is a receiver."""

def select(cases: Iterable[Any], timeout: float | None = None) -> tuple[int, Any] | tuple[None, None]:
    """Wait until one of the cases is ready, and take it. Return its index and its value, or (None, None)
    after `timeout` seconds.

    A case is a channel (receive), a queue (get), an event (set), a tasklet (ended), a lock or semaphore
    (acquire), an AsyncResult, a socket or descriptor (can be read); or what sending(), putting(), readable(),
    writable() and after() return. If several cases are ready, one is chosen at random. The value is the one
    that was received or taken, otherwise None. An exception from receive() is raised.
    """
