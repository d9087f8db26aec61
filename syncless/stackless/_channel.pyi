from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from syncless.stackless._tasklet import tasklet

class channel:
    """Tasklets meet in it: the one that comes first, to send or to receive, waits for the
    other.

    A value whose receiver is killed or interrupted before its turn comes is not lost: the next receiver gets
    it. Until there is one the channel keeps it, and it counts in `balance` as a sender does.
    """

    schedule_all: bool
    closing: bool
    @property
    def balance(self) -> int:
        """How many wait: positive if to send, negative if to receive."""
    def send(self, value: Any) -> None:
        """Gives the value to a receiver; waits for one."""
    def receive(self) -> Any:
        """Takes a value from a sender; waits for one. Raises what was sent as an exception. ValueError if the
        channel is closed."""
    def send_exception(self, exc: type[BaseException], *args: Any) -> None:
        """Raises exc(*args) in the receiver."""
    def send_throw(self, exc: Any = None, val: Any = None, tb: TracebackType | None = None) -> None:
        """Raises the exception, as throw() does, in the
        receiver."""
    def send_sequence(self, seq: Iterable[Any]) -> int:
        """Sends each of them. Returns how many there were."""
    def __iter__(self) -> channel: ...
    def __next__(self) -> Any: ...
    def close(self) -> None:
        """Nobody may wait for it any more; who waits already may be met."""
    def open(self) -> None: ...
    @property
    def closed(self) -> bool:
        """It is closing and nobody waits."""
    @property
    def queue(self) -> tasklet | None:
        """The first that waits, or None."""
    @property
    def preference(self) -> int:
        """Which tasklet runs next when two meet: -1 the receiver, 1 the sender, 0 the one that came
        second."""
    @preference.setter
    def preference(self, value: int) -> None: ...

_Callback = Callable[[channel, tasklet, bool, bool], object]

def set_channel_callback(callback: _Callback | None) -> _Callback | None:
    """callback(channel, tasklet, sending, willblock) before each action on a channel; None: no more. Returns
    the last one."""

def get_channel_callback() -> _Callback | None:
    """The present one, or None."""
