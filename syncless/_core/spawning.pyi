from collections.abc import Callable
from threading import Thread
from typing import ParamSpec, TypeVar

from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet

_P = ParamSpec("_P")
_T = TypeVar("_T")

def spawn(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Tasklet[_T]:
    """Runs function(*args, **kwargs) in a new tasklet of this thread, with a copy of the current context
    (contextvars).

    It starts when the current tasklet waits or ends.
    """

def spawn_in(
    where: Loop | Thread | int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> Tasklet[_T]:
    """spawn() in another thread: its loop, as its current_loop() gave it, a threading.Thread, or a thread's
    number.

    RuntimeError if the loop's thread has ended, LookupError if the thread has ended or has not used syncless
    yet.
    """
