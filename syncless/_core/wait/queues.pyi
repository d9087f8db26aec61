from collections.abc import Iterator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

class Queue(Generic[_T]):
    """First in, first out (queue.Queue, whose Empty and Full it raises). A maxsize of
    0 means no bound."""

    maxsize: int
    def __init__(self, maxsize: int = 0) -> None: ...
    def put(self, item: _T, block: bool = True, timeout: float | None = None) -> None:
        """Adds an item, waiting for room at most `timeout` seconds, then raises queue.Full."""
    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Takes the first item, waiting for one at most `timeout` seconds, then raises queue.Empty."""
    def put_nowait(self, item: _T) -> None: ...
    def get_nowait(self) -> _T: ...
    def qsize(self) -> int: ...
    def empty(self) -> bool: ...
    def full(self) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class LifoQueue(Queue[_T]):
    """Last in, first out (queue.LifoQueue)."""

class PriorityQueue(Queue[_T]):
    """The least item first (queue.PriorityQueue). An item is compared in its
    put(), which raises the error if that fails."""

class JoinableQueue(Queue[_T]):
    """A Queue whose join() waits until task_done() has been called for each
    item (queue.Queue)."""
    @property
    def unfinished(self) -> int:
        """Number of items put in for which task_done() has not been called."""
    def task_done(self) -> None:
        """Says that an item that was taken has been processed. ValueError if all have been."""
    def join(self, timeout: float | None = None) -> bool:
        """Waits until all items have been processed, at most `timeout` seconds. Returns whether they
        have."""

class Channel(Generic[_T]):
    """A meeting of one sender and one receiver: each waits for the other (Stackless Python's
    channel).

    Several may wait on either side; they meet in the order of their arrival. Iteration receives until
    close().

    send() returns when a receiver has the value. If that receiver is killed before its turn comes, the next
    receiver gets the value. Until there is one, the channel keeps the value, ahead of later ones. It counts
    in `balance` like a sender, and survives close().
    """

    balance: int
    closed: bool
    def send(self, value: _T, timeout: float | None = None) -> None:
        """Gives the value to a receiver; waits for one. TimeoutError after `timeout` seconds, ValueError if
        closed."""
    def send_exception(self, exception: BaseException | type[BaseException], *args: Any) -> None:
        """Raises an exception (an instance, or a class with its arguments) in the receiver."""
    def receive(self, timeout: float | None = None) -> _T:
        """Takes a value from a sender; waits for one. TimeoutError after `timeout` seconds, ValueError if
        closed."""
    def close(self) -> None:
        """Closes the channel: waiting tasklets get a ValueError, and iteration ends."""
    def __iter__(self) -> Iterator[_T]: ...
    def __next__(self) -> _T: ...
