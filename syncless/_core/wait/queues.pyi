from collections.abc import Iterator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

class Queue(Generic[_T]):
    """A FIFO queue, like queue.Queue; it raises queue.Empty and queue.Full. A maxsize
    of 0 means no bound."""

    maxsize: int
    def __init__(self, maxsize: int = 0) -> None: ...
    def put(self, item: _T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Wait for room for at most `timeout` seconds, then raise queue.Full."""
    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Take the first item. Wait for an item for at most `timeout` seconds, then raise queue.Empty."""
    def put_nowait(self, item: _T) -> None: ...
    def get_nowait(self) -> _T: ...
    def qsize(self) -> int: ...
    def empty(self) -> bool: ...
    def full(self) -> bool: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class LifoQueue(Queue[_T]):
    """A LIFO queue, like queue.LifoQueue."""

class PriorityQueue(Queue[_T]):
    """A queue that returns the least item first, like queue.PriorityQueue.
    put() compares the item with others, and raises the error if a comparison fails."""

class JoinableQueue(Queue[_T]):
    """A Queue whose join() waits until task_done() has been called for each
    item, as in queue.Queue."""
    @property
    def unfinished(self) -> int:
        """The number of items for which task_done() has not been called."""
    def task_done(self) -> None:
        """Report that an item has been processed. Raise ValueError if there were more calls than items."""
    def join(self, timeout: float | None = None) -> bool:
        """Wait until all items have been processed, for at most `timeout` seconds. Return whether they
        have."""

class Channel(Generic[_T]):
    """A meeting of one sender and one receiver: each waits for the other (Stackless Python's
    channel).

    Several tasklets may wait on either side; they meet in FIFO order. Iteration receives until close().

    send() returns when a receiver has the value. If that receiver is killed before its turn comes, the next
    receiver gets the value. Until there is one, the channel keeps the value, ahead of later values. The value
    counts in `balance` like a sender, and survives close().
    """

    balance: int
    closed: bool
    def send(self, value: _T, timeout: float | None = None) -> None:
        """Wait for a receiver, and give it the value. Raise TimeoutError after `timeout` seconds, ValueError
        if the channel is closed."""
    def send_exception(self, exception: BaseException | type[BaseException], *args: Any) -> None:
        """Raise an exception (an instance, or a class with its arguments) in the receiver."""
    def receive(self, timeout: float | None = None) -> _T:
        """Wait for a sender, and return its value. Raise TimeoutError after `timeout` seconds, ValueError if
        the channel is closed."""
    def close(self) -> None:
        """Close the channel: waiting tasklets get a ValueError, and iteration ends."""
    def __iter__(self) -> Iterator[_T]: ...
    def __next__(self) -> _T: ...
