from collections.abc import Callable
from threading import Thread
from typing import Any

from syncless._core.loop import Loop
from syncless._core.tasklet import Tasklet

def spawn(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Tasklet: ...
def spawn_in(
    where: Loop | Thread | int, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Tasklet: ...
