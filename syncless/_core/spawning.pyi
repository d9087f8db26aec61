from collections.abc import Callable
from threading import Thread
from typing import ParamSpec, TypeVar

from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet

_P = ParamSpec("_P")
_T = TypeVar("_T")

def spawn(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Tasklet[_T]: ...
def spawn_in(
    where: Loop | Thread | int, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> Tasklet[_T]: ...
