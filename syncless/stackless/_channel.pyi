from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from syncless.stackless._tasklet import tasklet

class channel:
    """A meeting point of a sender and a receiver. The first of the two waits for the other.

    If a receiver is killed or interrupted before its turn, the next receiver gets its value. Until then, the
    channel keeps the value, which counts in `balance` like a sender.
    """

    schedule_all: bool
    closing: bool
    @property
    def balance(self) -> int:
        """The number of waiting tasklets: positive for senders, negative for receivers."""
    def send(self, value: Any) -> None:
        """Wait for a receiver, and pass it the value."""
    def receive(self) -> Any:
        """Wait for a sender, and return its value or raise its exception. Raise ValueError if the channel is
        closed."""
    def send_exception(self, exc: type[BaseException], *args: Any) -> None:
        """Raise exc(*args) in the receiver."""
    def send_throw(self, exc: Any = None, val: Any = None, tb: TracebackType | None = None) -> None:
        """Raise the exception in the receiver, like throw()."""
    def send_sequence(self, seq: Iterable[Any]) -> int:
        """Send each item. Return their number."""
    def __iter__(self) -> channel: ...
    def __next__(self) -> Any: ...
    def clear(self) -> None:
        """Kill all tasklets that wait for the channel, in order, and drop the values that it keeps."""
    def close(self) -> None:
        """Refuse further waits. Tasklets that already wait can still exchange values."""
    def open(self) -> None: ...
    @property
    def closed(self) -> bool:
        """Whether close() was called and no tasklet waits any longer."""
    @property
    def queue(self) -> tasklet | None:
        """The first waiting tasklet, or None."""
    @property
    def preference(self) -> int:
        """Which tasklet runs next when two meet: -1 the receiver, 1 the sender, 0 the last to arrive."""
    @preference.setter
    def preference(self, value: int) -> None: ...

_Callback = Callable[[channel, tasklet, bool, bool], object]

def set_channel_callback(callback: _Callback | None) -> _Callback | None:
    """Call callback(channel, tasklet, sending, willblock) before each action on a channel; None stops that.
    Return the previous callback."""

def get_channel_callback() -> _Callback | None:
    """Return the current callback, or None."""
