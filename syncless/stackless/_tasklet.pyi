from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from syncless._core.bytecodes import BytecodeLimit
from syncless.stackless._state import TracedTasklet

class tasklet(TracedTasklet):
    """A function that runs concurrently with others. Call the tasklet with arguments to insert it."""

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
        """Set the function that the tasklet runs; with `args` or `kwargs` the tasklet is alive, and paused.
        bind(None) unbinds the function. Return the tasklet."""
    def setup(self, *args: Any, **kwargs: Any) -> tasklet:
        """Bind the arguments, insert the tasklet, and return it. Raise RuntimeError if it is alive."""
    def insert(self) -> tasklet:
        """Append the tasklet to its thread's run queue, and return it. A sleeping tasklet is woken. Raise
        RuntimeError if the tasklet is dead or blocked."""
    def remove(self) -> tasklet:
        """Pause the tasklet: remove it from its thread's run queue. The running tasklet stops here. Raise
        RuntimeError if the tasklet is blocked."""
    def run(self) -> Any:
        """Run the tasklet now. The current tasklet moves to the end of the run queue, followed by the
        tasklets before this one. A tasklet of another thread runs next in that thread. Return the `tempval`
        of the current tasklet."""
    def switch(self) -> Any:
        """Run the tasklet now, and pause the current one. Raise RuntimeError if it belongs to another thread.
        Return the `tempval` of the current tasklet."""
    def kill(  # type: ignore[override]
        self, pending: Any = False, *, exception: Any = ..., block: bool = True, timeout: float | None = None
    ) -> bool | None:
        """Raise TaskletExit in the tasklet, now or when its turn comes (`pending`). Nothing happens if the
        tasklet is dead."""
    def raise_exception(self, exc_class: type[BaseException], *args: Any) -> None:
        """Raise exc_class(*args) in the tasklet now."""
    def throw(
        self, exc: Any = None, val: Any = None, tb: TracebackType | None = None, pending: bool = False
    ) -> None:
        """Raise the exception in the tasklet, now or when its turn comes (`pending`). Raise RuntimeError if
        the tasklet is dead, unless the exception is TaskletExit. A tasklet running in another thread gets
        the exception when it next waits."""
    def bind_thread(self, thread_id: int | None = None) -> None:
        """Move a tasklet that has not started to another thread, by default this one. Raise RuntimeError if
        the tasklet is in a run queue or has started, ValueError if there is no such thread."""

class Preemption(BytecodeLimit): ...

def schedule(retval: Any = ...) -> Any:
    """Let the other ready tasklets run once. Return `retval`, or else the current tasklet."""

def schedule_remove(retval: Any = ...) -> Any:
    """Pause the current tasklet until it is inserted again; otherwise like schedule()."""

def run(
    timeout: int = 0,
    threadblock: bool = False,
    soft: bool = False,
    ignore_nesting: bool = False,
    totaltimeout: bool = False,
) -> tasklet | None:
    """Run the other tasklets until none is ready and none waits for I/O or a time. Raise any exception that
    no tasklet has caught.

    `timeout`: pause and return a tasklet that runs more bytecodes than this in one turn, at its next call,
    backward jump or function entry; with `soft`, run() ends at the next switch instead, and returns None.
    `totaltimeout`: count the bytecodes of all turns together. `threadblock`: while tasklets wait for
    channels, wait for another thread that may meet them. `ignore_nesting` has no effect: a tasklet can be
    interrupted at any depth. A nested run() has no timeout of its own; the outer one applies.
    """

def getcurrent() -> tasklet:
    """Return the running tasklet."""

def getmain() -> tasklet:
    """Return this thread's main tasklet."""

def getruncount() -> int:
    """Return the number of tasklets in the run queue, including the running one."""

def getcurrentid() -> int:
    """Return a number that identifies the running tasklet."""

def get_thread_info(thread_id: int | None = None, flags: int = 0) -> tuple[Any, ...]:
    """Return (main tasklet, current tasklet, run count) of a thread, by default this one. Raise RuntimeError,
    which is also a ValueError, if there is no such thread.

    Bit 30 of `flags` adds three figures about Stackless's C stacks, which do not exist here: always 0, 0 and
    None. Bit 31 adds a list: the tasklet whose run() has a timeout, or None, followed by all tasklets in
    run(). The list stays up to date, and must not be changed.
    """

def getthreads() -> list[int]:
    """Return the ids of the threads that have tasklets, this one first."""

def switch_trap(delta: int = 0) -> int:
    """Add `delta` to a counter: while the counter is not 0, a switch raises RuntimeError. Return its previous
    value."""

def getdebug() -> bool:
    """Return False: this is not a debugging build of Stackless's interpreter."""

def getuncollectables() -> list[Any]:
    """Return the objects that Stackless could not free: always an empty list."""

def enable_softswitch(flag: bool) -> bool:
    """Return False: greenlets always switch on the C stack."""

class atomic:
    """A context manager, ``with atomic():``, in which the tasklet must not be preempted."""
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...
