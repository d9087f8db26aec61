"""TaskGroup: tasklets that end with a block of code."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from syncless._core.current import current, uninterrupted
from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet, spawn
from syncless.tools.waiting import join_all

P = ParamSpec("P")
T = TypeVar("T")


class _Stop(BaseException):
    """Ends the block of a group when one of its children has failed."""


class TaskGroup:
    """A group of tasklets whose block ends when all tasklets spawned in it have ended::

        with TaskGroup() as group:
            group.spawn(fetch, "one")
            group.spawn(fetch, "two")

    The first exception of a child ends the other children and the block, wherever they wait, and all
    exceptions are raised as an ExceptionGroup (on Python 3.10, only the first one). An exception of the block
    ends the children, and is raised alone unless a child fails too.
    """

    def __init__(self) -> None:
        self._owner: Tasklet[Any] | None = None
        self._children: dict[Tasklet[Any], bool] = {}  # whether it has been told to end
        self._errors: list[BaseException] = []
        self._open = False
        self._stop = _Stop()

    def __enter__(self) -> TaskGroup:
        if self._owner is not None:
            raise RuntimeError("a TaskGroup can be entered only once")
        self._owner = current()
        self._open = True
        return self

    def spawn(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Tasklet[T]:
        """Run function(*args, **kwargs) in a child. Raise RuntimeError outside the block."""
        if not self._open:
            raise RuntimeError("the block of this TaskGroup is not running")
        child = spawn(self._run, function, args, kwargs)
        self._children[child] = False
        child.add_done_callback(self._ended)
        return child

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return function(*args, **kwargs)
        except TaskletExit:
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            first = not self._errors
            self._errors.append(error)
            if first:
                self._cancel()
                if self._open and self._owner is not None:
                    self._owner.kill(self._stop, block=False)
            raise TaskletExit from error

    def _ended(self, child: Tasklet[Any]) -> None:
        self._children.pop(child, None)

    def _cancel(self) -> None:
        me = current()
        for child, told in list(self._children.items()):
            if child is not me and not told:  # once: it may be cleaning up
                self._children[child] = True
                child.kill(block=False)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if value is not None:
            self._open = False
            self._cancel()
        interrupted: BaseException | None = None
        while self._children:
            try:
                if self._open and not self._errors:
                    join_all(list(self._children))
                else:  # they have been told to end: an interruption has nothing to do here
                    uninterrupted(join_all, list(self._children))
            except BaseException as error:
                if current() is None or sys.is_finalizing():
                    raise  # nothing can wait here
                if error is not self._stop:
                    interrupted = error
                    self._open = False
                    self._cancel()
        self._open = False
        if self._owner is not None:
            self._owner.take_back(self._stop)
        if interrupted is not None:
            raise interrupted
        errors = list(self._errors)
        if value is not None and value is not self._stop:
            if not errors or not isinstance(value, Exception):
                return
            errors.insert(0, value)
        if errors:
            group = getattr(builtins, "BaseExceptionGroup", None)  # since Python 3.11
            raise errors[0] if group is None else group("unhandled errors in a TaskGroup", errors)
