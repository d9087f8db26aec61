from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context
from types import FrameType
from typing import Any, TypeVar

from syncless._core.tasklet import Tasklet

_Self = TypeVar("_Self", bound="StatefulTasklet")

class StatefulTasklet(Tasklet[Any]):
    """The base class of Stackless's tasklets, with their state, their flags and their own context."""

    @property
    def alive(self) -> bool:
        """Whether the tasklet can still run."""
    @property
    def blocked(self) -> bool:
        """Whether the tasklet waits for a channel, for I/O or for a time."""
    @property
    def scheduled(self) -> bool:
        """Whether the tasklet is in the run queue, or blocked."""
    @property
    def paused(self) -> bool:
        """Whether the tasklet is alive, but neither in the run queue nor blocked. A tasklet in run() is
        paused."""
    @property
    def is_current(self) -> bool: ...
    @property
    def thread_id(self) -> int:
        """The id of the tasklet's thread, or -1 if the thread has ended."""
    @property
    def next(self) -> StatefulTasklet | None:
        """The tasklet behind this one in the run queue or the channel's queue, or None if this one is in
        neither."""
    @property
    def prev(self) -> StatefulTasklet | None: ...
    @property
    def times_switched_to(self) -> int:
        """How often the tasklet was switched to since it was bound."""
    @property
    def method_name(self) -> str | None:
        """The name of the tasklet's function, or None if it has none or has ended."""
    @property
    def module_name(self) -> str | None: ...
    @property
    def file_name(self) -> str | None: ...
    @property
    def line_number(self) -> int | None: ...
    dont_raise: bool
    """Whether exceptions of the function are reported, with a traceback, rather than raised in run()."""
    exception_handler: Callable[[str], object] | None
    """With `dont_raise`: called with a text in place of the report, and sys.exc_info() is the exception.
    None: it is reported."""
    context_manager_getter: Callable[[Any], AbstractContextManager[Any]] | None
    """With `dont_raise`: called with the tasklet; the function runs inside the context manager that it
    returns. Exceptions of the context manager itself are raised in run()."""
    block_trap: bool
    atomic: bool
    ignore_nesting: bool
    def set_atomic(self, flag: bool) -> bool:
        """Set whether the tasklet must not be preempted. Return the previous value."""
    def set_ignore_nesting(self, flag: bool) -> bool: ...
    @property
    def context_id(self) -> int: ...
    def set_context(self: _Self, context: Context) -> _Self:
        """Set the contextvars.Context in which the tasklet will run, and return the tasklet. Raise
        RuntimeError if it has started."""
    def context_run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call function(*args, **kwargs) in the tasklet's context."""
    @property
    def restorable(self) -> bool:
        """Whether the tasklet can be pickled, because it has not started or has ended."""
    @property
    def recursion_depth(self) -> int:
        """1 if the tasklet has started, else 0."""
    @property
    def nesting_level(self) -> int:
        """1 if the tasklet has started and is not running, because its frames are on a C stack; else 0."""

_TraceFunction = Callable[[FrameType, str, Any], Any]

class TracedTasklet(StatefulTasklet):
    """A base class of Stackless's tasklets, with their own trace and profile functions."""

    trace_function: _TraceFunction | None
    profile_function: _TraceFunction | None
