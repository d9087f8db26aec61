from collections.abc import Callable
from contextvars import Context
from typing import Any, Literal

from syncless.asyncio.dispatcher import Dispatcher, Handle, TimerHandle

class ReadyHandle(Handle): ...
class Descriptor: ...

class Descriptors:
    def __init__(self, dispatcher: Dispatcher) -> None: ...

class Callbacks:
    """The base of EventLoop."""

    blocking: Literal["park", "warn", "block"]
    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Call callback(*args) in the loop's next round, in the given context or a copy of the current one.
        Return a handle."""
    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """Like call_soon(), but callable from any thread or signal handler."""
    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Call callback(*args) after `delay` seconds. Return a handle."""
    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Call callback(*args) when loop.time() is `when`, in seconds. Return a handle."""
    def time(self) -> float:
        """Return the time of the monotonic clock in seconds."""
    def set_task_factory(self, factory: Callable[..., Any] | None) -> None:
        """Create tasks with factory(loop, coroutine), or with asyncio.Task if the factory is None."""
    def set_debug(self, enabled: bool) -> None:
        """Set the debug mode, in which each call is checked, and handles record where they were created."""
    def run_forever(self) -> None:
        """Run the loop until stop(). The calling tasklet waits; all others continue."""
    def stop(self) -> None:
        """Make run_forever() return after the callbacks that are due now."""
    def get_debug(self) -> bool:
        """Return whether debug mode is on. Each future and each task calls this."""

class Relay:
    def __await__(self) -> Relay: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, kind: Any, value: Any = None, trace: Any = None) -> Any: ...
    def close(self) -> None: ...

class FirstStep:
    def __init__(self, dispatcher: Dispatcher) -> None: ...
