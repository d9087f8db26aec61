from types import TracebackType
from typing import Literal

class Timeout(BaseException):
    """An exception that interrupts a tasklet after a time limit.

    ::

        with Timeout(5):            # raises this Timeout after 5 seconds inside the block
            page = fetch(url)

        with Timeout(5, False):     # leaves the block silently after 5 seconds
            page = fetch(url)

        with Timeout(5, KeyError("slow")):      # raises that instead
            page = fetch(url)

    It is a BaseException, so that ``except Exception`` inside the block does not swallow it. ``seconds`` is
    an int or float; None never fires.
    """

    seconds: float | None
    exception: BaseException | type[BaseException] | Literal[False] | None
    def __init__(
        self,
        seconds: float | None = None,
        exception: BaseException | type[BaseException] | Literal[False] | None = None,
    ) -> None: ...
    def start(self) -> None:
        """Start the clock for the current tasklet. Raise RuntimeError if the clock already runs, or in a
        callback of the loop, where there is no tasklet."""
    @classmethod
    def start_new(
        cls, seconds: float | None = None, exception: BaseException | type[BaseException] | None = None
    ) -> Timeout:
        """Return a started Timeout; cancel() ends it."""
    def cancel(self) -> None:
        """Stop the clock; harmless if it is not running. An expired timeout that has not been raised yet is
        dropped."""
    def close(self) -> None:
        """The same as cancel()."""
    @property
    def pending(self) -> bool:
        """Whether the clock runs."""
    def __enter__(self) -> Timeout: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

class deadline(Timeout):
    """``with deadline(5):`` bounds every wait in the block, and raises TimeoutError outside the block.

    Deadlines nest: each has its own clock, so an inner one never outlives an outer one. Code in the block
    that catches Exception does not swallow the deadline.
    """
    def __init__(self, seconds: float | None) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]: ...
    @staticmethod
    def remaining() -> float | None:
        """Return the seconds until the first clock of the current tasklet expires: a deadline, a Timeout or
        the server's ``request_seconds``. Return 0.0 if one has already expired, None if no clock runs. The
        call looks at each timer of the loop."""
