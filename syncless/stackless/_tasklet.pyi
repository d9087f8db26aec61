from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from syncless._core.bytecodes import BytecodeLimit
from syncless.stackless._state import TracedTasklet

class tasklet(TracedTasklet):
    """A function that runs beside others. Call the tasklet with arguments to insert it."""

    tempval: Any
    def __init__(
        self,
        func: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> tasklet: ...
    def bind(
        self,
        func: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> tasklet:
        """Set the function that it runs; with `args` or `kwargs` it is alive, and paused. bind(None) unbinds.
        Return the tasklet."""
    def setup(self, *args: Any, **kwargs: Any) -> tasklet:
        """Bind the arguments and insert the tasklet. Return it. Raise RuntimeError if it is alive."""
    def insert(self) -> tasklet:
        """Put it at the end of its thread's run queue. One that sleeps is woken. Raise RuntimeError if it is
        dead or blocked. Return the tasklet."""
    def remove(self) -> tasklet:
        """Take it out of its thread's run queue: it is paused. The running one stops here. Raise RuntimeError
        if it is blocked."""
    def run(self) -> Any:
        """Run it now. The present tasklet goes to the end of the run queue, followed by the tasklets before
        this one. A tasklet of another thread runs next in that thread. Return the `tempval` of the present
        one."""
    def switch(self) -> Any:
        """Run it now, and pause the present tasklet. Raise RuntimeError if it belongs to another thread.
        Return the `tempval` of the present one."""
    def kill(  # type: ignore[override]
        self, pending: Any = False, *, exception: Any = ..., block: bool = True, timeout: float | None = None
    ) -> bool | None:
        """Raise TaskletExit in it, now, or when its turn comes (`pending`). Nothing happens if it is
        dead."""
    def raise_exception(self, exc_class: type[BaseException], *args: Any) -> None:
        """Raise exc_class(*args) in it, now."""
    def throw(
        self, exc: Any = None, val: Any = None, tb: TracebackType | None = None, pending: bool = False
    ) -> None:
        """Raise the exception in it, now, or when its turn comes (`pending`). Raise RuntimeError if it is
        dead, except for TaskletExit. In one that runs in another thread it is raised when it next waits."""
    def bind_thread(self, thread_id: int | None = None) -> None:
        """Let a tasklet that has not started belong to another thread, by default this one. Raise
        RuntimeError if it is in a run queue or has started, ValueError if there is no such thread."""

class Preemption(BytecodeLimit): ...

def schedule(retval: Any = ...) -> Any:
    """Let the other ready tasklets run once. Return `retval`, or the present tasklet."""

def schedule_remove(retval: Any = ...) -> Any:
    """Like schedule(), but pause the present tasklet until it is inserted again."""

def run(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
) -> tasklet | None:
    """Run the others until none is ready and none waits for input, output or a time. Raise what no tasklet
    has caught.

    `timeout`: a tasklet that runs more bytecodes than this in one turn is paused at its next call, jump back
    or beginning of a function, and returned; with `soft` run() ends at its next switch instead, and returns
    None. `totaltimeout`: in all their turns together. `threadblock`: while tasklets wait for channels, wait
    for another thread that may meet them. `ignore_nesting` changes nothing: a tasklet can be interrupted at
    any depth. A nested run() has no timeout of its own; the outer one applies.
    """

def getcurrent() -> tasklet:
    """Return the running tasklet."""

def getmain() -> tasklet:
    """This thread's main tasklet."""

def getruncount() -> int:
    """Return the number of tasklets in the run queue, including the running one."""

def getcurrentid() -> int:
    """Return a number that identifies the running tasklet."""

def get_thread_info(thread_id: int | None = None, flags: int = 0) -> tuple[Any, ...]:
    """Return (main tasklet, current tasklet, run count) of a thread, by default this one. Raise RuntimeError,
    which is also a ValueError, if there is no such thread.

    `flags` with bit 30 adds three figures of Stackless's C stacks, of which there are none here: always 0,
    0 and None. Bit 31 adds a list: the tasklet whose run() has a timeout, or None, and all that are in
    run(). It stays up to date, and must not be changed.
    """

def getthreads() -> list[int]:
    """Return the ids of the threads that have tasklets, this one first."""

def switch_trap(delta: int = 0) -> int:
    """Add a delta: while the sum of all deltas is not 0, a switch raises RuntimeError. Return the previous
    sum."""

def getdebug() -> bool:
    """Return whether this is a debugging build of Stackless's interpreter: False."""

def getuncollectables() -> list[Any]:
    """Return the objects that Stackless could not free: an empty list."""

def enable_softswitch(flag: bool) -> bool:
    """Greenlets switch on the C stack, always. Return False."""

class atomic:
    """with atomic(): the tasklet must not be preempted."""
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
