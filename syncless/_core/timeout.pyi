from types import TracebackType
from typing import Literal

class Timeout(BaseException):
    """Raised in its tasklet when its time has passed.

    ::

        with Timeout(5):            # raises this Timeout after 5 seconds inside the block
            page = fetch(url)

        with Timeout(5, False):     # leaves the block silently after 5 seconds
            page = fetch(url)

        with Timeout(5, KeyError("slow")):      # raises that instead
            page = fetch(url)

    A BaseException, so that ``except Exception`` inside the block does not swallow it. ``seconds`` is an int
    or float; None never fires.
    """

    seconds: float | None
    exception: BaseException | type[BaseException] | Literal[False] | None
    def __init__(
        self,
        seconds: float | None = None,
        exception: BaseException | type[BaseException] | Literal[False] | None = None,
    ) -> None: ...
    def start(self) -> None:
        """Start the clock for the current tasklet. Raise RuntimeError if it already runs, or in a callback of
        the loop, where there is no tasklet."""
    @classmethod
    def start_new(
        cls, seconds: float | None = None, exception: BaseException | type[BaseException] | None = None
    ) -> Timeout:
        """Return a started Timeout; cancel() ends it."""
    def cancel(self) -> None:
        """Stop the clock; harmless if it is not running. A timeout that has passed, but has not been raised
        yet, is not raised any more."""
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
    """``with deadline(5):`` bounds every wait in the block, and raises TimeoutError outside it.

    Deadlines nest: each has its own clock, so an inner one never outlives an outer one. Code in the block
    that catches Exception does not swallow the deadline.
    """
    def __init__(self, seconds: float | None) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]: ...
    @staticmethod
    def remaining() -> float | None:
        """Return seconds until the first of the clocks that run for the current tasklet is over: a deadline,
        a Timeout or the server's ``request_seconds``. 0.0 if it is over already, None if there is none. Look
        at each timer of the loop."""
