from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from syncless.stackless._tasklet import tasklet

class channel:
    """A meeting point of a sender and a receiver. The first of the two waits for the other.

    If a receiver is killed or interrupted before its turn, the next receiver gets its value. Until there
    is one, the channel keeps the value, which counts in `balance` like a sender.
    """

    schedule_all: bool
    closing: bool
    @property
    def balance(self) -> int:
        """Number of waiting tasklets: positive for senders, negative for receivers."""
    def send(self, value: Any) -> None:
        """Wait for a receiver, and hand it the value."""
    def receive(self) -> Any:
        """Wait for a sender, and return its value, or raise it if it was sent as an exception. Raise
        ValueError if the channel is closed."""
    def send_exception(self, exc: type[BaseException], *args: Any) -> None:
        """Raise exc(*args) in the receiver."""
    def send_throw(self, exc: Any = None, val: Any = None, tb: TracebackType | None = None) -> None:
        """Raise the exception, as throw() does, in the receiver."""
    def send_sequence(self, seq: Iterable[Any]) -> int:
        """Send each item. Return their number."""
    def __iter__(self) -> channel: ...
    def __next__(self) -> Any: ...
    def clear(self) -> None:
        """Kill all tasklets that wait for it, in order, and drop the values that it keeps."""
    def close(self) -> None:
        """Refuse further waits. Tasklets that wait already can still be met."""
    def open(self) -> None: ...
    @property
    def closed(self) -> bool:
        """Whether it is closing and no tasklet waits."""
    @property
    def queue(self) -> tasklet | None:
        """The first waiting tasklet, or None."""
    @property
    def preference(self) -> int:
        """The tasklet that runs next when two meet: -1 the receiver, 1 the sender, 0 the second to come."""
    @preference.setter
    def preference(self, value: int) -> None: ...

_Callback = Callable[[channel, tasklet, bool, bool], object]

def set_channel_callback(callback: _Callback | None) -> _Callback | None:
    """Call callback(channel, tasklet, sending, willblock) before each action on a channel; None stops that.
    Return the previous callback."""

def get_channel_callback() -> _Callback | None:
    """Return the present callback, or None."""
