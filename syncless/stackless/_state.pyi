from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context
from types import FrameType
from typing import Any, TypeVar

from syncless._core.tasklet import Tasklet

_Self = TypeVar("_Self", bound="StatefulTasklet")

class StatefulTasklet(Tasklet[Any]):
    """The base class of Stackless's tasklets: their state, flags, and a context of their own."""

    @property
    def alive(self) -> bool:
        """Whether the tasklet can still run."""
    @property
    def blocked(self) -> bool:
        """Whether it waits for a channel, for input or output, or for a time."""
    @property
    def scheduled(self) -> bool:
        """Whether it is in the run queue, or blocked."""
    @property
    def paused(self) -> bool:
        """Whether it is alive, and neither in the run queue nor blocked. A tasklet in run() is paused."""
    @property
    def is_current(self) -> bool: ...
    @property
    def thread_id(self) -> int:
        """Of the thread to which it belongs; -1 if that has ended."""
    @property
    def next(self) -> StatefulTasklet | None:
        """Behind it in the run queue or the channel's queue; None if it is in neither."""
    @property
    def prev(self) -> StatefulTasklet | None: ...
    @property
    def times_switched_to(self) -> int:
        """How often it has gone on since it was bound."""
    @property
    def method_name(self) -> str | None:
        """The name of its function; None if it has none, or has ended. The same holds for the next three."""
    @property
    def module_name(self) -> str | None: ...
    @property
    def file_name(self) -> str | None: ...
    @property
    def line_number(self) -> int | None: ...
    dont_raise: bool
    """Whether exceptions of its function are reported, with a traceback, rather than raised in run()."""
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
        """A section in which it must not be preempted. Return the flag's last value."""
    def set_ignore_nesting(self, flag: bool) -> bool: ...
    @property
    def context_id(self) -> int: ...
    def set_context(self: _Self, context: Context) -> _Self:
        """The contextvars.Context in which it will run. Raise RuntimeError if it runs already. Return the
        tasklet."""
    def context_run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """function(*args, **kwargs) in its context."""
    @property
    def restorable(self) -> bool:
        """It can be pickled: it has not started, or has ended."""
    @property
    def recursion_depth(self) -> int:
        """1 of one that has started, or 0."""
    @property
    def nesting_level(self) -> int:
        """1 of one that has started and does not run now, because it has its frames on a C stack, or 0."""

_TraceFunction = Callable[[FrameType, str, Any], Any]

class TracedTasklet(StatefulTasklet):
    """A base class of Stackless's tasklets: trace and profile functions of their own."""

    trace_function: _TraceFunction | None
    profile_function: _TraceFunction | None
