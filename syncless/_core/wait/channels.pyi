from collections.abc import Iterator
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")

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
