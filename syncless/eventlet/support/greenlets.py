"""A tasklet with the methods of a greenlet: switch(), throw(), dead. Green threads are made of it.

getcurrent() returns such an object for each tasklet, for the main one too. In a call that the hub makes, it
is the hub's own.
"""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

from greenlet import GreenletExit

from syncless._core.current import current
from syncless._core.tasklet import Tasklet
from syncless.eventlet import _greenlet
from syncless.eventlet._greenlet import Turn, exception_of, greenlet, in_hub, show, switch_to, throw_in

__all__ = [
    "GreenletExit",
    "Turn",
    "exception_of",
    "getcurrent",
    "greenlet",
    "in_hub",
    "show",
    "switch_to",
    "throw_in",
]


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


_strangers: weakref.WeakKeyDictionary[Tasklet[Any], Stranger] = weakref.WeakKeyDictionary()


def getcurrent() -> Any:
    """Return the running green thread."""
    here = current()
    if isinstance(here, greenlet):
        return here
    if here is None or isinstance(here, Turn):
        return _greenlet.find_hub().greenlet
    return greenlet_of(here)


def greenlet_of(tasklet: Tasklet[Any]) -> Any:
    if isinstance(tasklet, greenlet):
        return tasklet
    stranger = _strangers.get(tasklet)
    if stranger is None:
        stranger = _strangers[tasklet] = Stranger(tasklet)
    return stranger
