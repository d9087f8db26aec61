"""A tasklet with the methods of a greenlet: switch(), throw(), dead. Green threads are made of it.

getcurrent() returns such an object for each tasklet, for the main one too. In a call that the hub makes, it
is the hub's own.
"""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from greenlet import GreenletExit

from syncless._core.current import current, park, sleep, wake
from syncless._core.exits import TaskletExit
from syncless._core.tasklet import Tasklet

__all__ = ["GreenletExit", "getcurrent", "greenlet"]

begin_thread: Callable[[Any], None] | None = None
end_thread: Callable[[Any], None] | None = None
"""Called in each green thread at its beginning and its end, if it is a thread for the module threading, see
currentthread.py."""
find_hub: Any = None
"""hubs.get_hub(), which the module of hubs puts here."""
show_errors = True
"""Whether exceptions that end a green thread are printed (debug.hub_exceptions())."""


def exception_of(arguments: tuple[Any, ...]) -> BaseException:
    """Return the exception that throw(), kill() and cancel() are given: class, value, traceback."""
    kind, value, trace = (*arguments, None, None, None)[:3]
    if isinstance(value, BaseException):
        error = value
    elif isinstance(kind, BaseException):
        error = kind
    elif kind is None:
        error = GreenletExit()
    elif value is None:
        error = kind()
    else:
        error = kind(*value) if isinstance(value, tuple) else kind(value)
    return error.with_traceback(trace) if trace is not None else error


def show(error: BaseException) -> None:
    if show_errors and not isinstance(error, GreenletExit):
        traceback.print_exception(error)


def switch_to(tasklet: Tasklet[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Resume a tasklet that waits in hub.switch(). A tasklet that calls this stops as if in hub.switch(); a
    call from the hub returns."""
    value = (args, kwargs) if kwargs and args else kwargs or (args[0] if len(args) == 1 else args)
    wake(tasklet, value)
    if not in_hub() and current() is not tasklet:
        return park("hub.switch()")[1]
    return None


def throw_in(tasklet: Tasklet[Any], arguments: tuple[Any, ...]) -> None:
    """Raise an exception in the tasklet before the calling one goes on."""
    here = current()
    Tasklet.kill(tasklet, exception_of(arguments), block=False)
    if here is not None and here is not tasklet and not in_hub():
        sleep()


class greenlet(Tasklet[Any]):
    """Calls a function, and prints the exception that ends it."""

    _error: BaseException | None = None
    _value: Any = None
    _begun = False
    _killed = False

    def __init__(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(self._live, 0, run, args, kwargs)

    def _live(
        self, seconds: float, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """From the first turn to the end."""
        try:
            if seconds > 0:
                sleep(seconds)
            self._begun = True
            if begin_thread is not None:
                begin_thread(self)
            self._value = function(*args, **kwargs)
        except BaseException as error:
            self._error = error
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            show(error)
        finally:
            del function, args, kwargs
            self._ended()
            if end_thread is not None:
                end_thread(self)

    def _ended(self) -> None:
        """The function has returned or raised, or will never be called."""

    @property
    def dead(self) -> bool:
        return self._killed or self.done()

    def __bool__(self) -> bool:
        return self._begun and not self.dead

    def __hash__(self) -> int:
        return id(self)

    @property
    def parent(self) -> Any:
        return find_hub().greenlet

    @property
    def gr_frame(self) -> FrameType | None:
        return self.frame

    def switch(self, *args: Any, **kwargs: Any) -> Any:
        return switch_to(self, args, kwargs)

    def throw(self, *arguments: Any) -> None:
        if self.dead:
            return
        if self.status == "new":
            self._killed = True
            self._error = exception_of(arguments)
            throw_in(self, (TaskletExit(),))  # which nobody is told of
            self._ended()
        else:
            throw_in(self, arguments)


class Stranger:
    """Stands for a tasklet that is no green thread: the main one, a thread under the patch, a request."""

    def __init__(self, tasklet: Tasklet[Any]) -> None:
        self._tasklet = weakref.ref(tasklet)

    @property
    def dead(self) -> bool:
        tasklet = self._tasklet()
        return tasklet is None or tasklet.done()

    def __bool__(self) -> bool:
        return not self.dead

    parent = None

    @property
    def gr_frame(self) -> FrameType | None:
        tasklet = self._tasklet()
        return None if tasklet is None else tasklet.frame

    def switch(self, *args: Any, **kwargs: Any) -> Any:
        tasklet = self._tasklet()
        return None if tasklet is None else switch_to(tasklet, args, kwargs)

    def throw(self, *arguments: Any) -> None:
        tasklet = self._tasklet()
        if tasklet is not None:
            throw_in(tasklet, arguments)


class Turn(Tasklet[Any]):
    """A call that the hub makes: code in it is in no green thread."""


_strangers: weakref.WeakKeyDictionary[Tasklet[Any], Stranger] = weakref.WeakKeyDictionary()


def in_hub() -> bool:
    here = current()
    return here is None or isinstance(here, Turn)


def getcurrent() -> Any:
    """Return the running green thread."""
    here = current()
    if isinstance(here, greenlet):
        return here
    if here is None or isinstance(here, Turn):
        return find_hub().greenlet
    return greenlet_of(here)


def greenlet_of(tasklet: Tasklet[Any]) -> Any:
    if isinstance(tasklet, greenlet):
        return tasklet
    stranger = _strangers.get(tasklet)
    if stranger is None:
        stranger = _strangers[tasklet] = Stranger(tasklet)
    return stranger
