"""Gives access to asyncio's records of the running loop and the current task of an OS thread, and of all
tasks.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from syncless._core.cpython.features import SWAPS_CURRENT_TASK, THREAD_HAS_CURRENT_TASK
from syncless._core.cpython.functions import original_of


def note_of_running_loop(events: ModuleType) -> Callable[[Any], None]:
    """Return the original `_set_running_loop(loop)` of asyncio.events, which accepts None for no loop."""
    note: Callable[[Any], None] = original_of(events._set_running_loop)
    return note


if SWAPS_CURRENT_TASK:

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Make `task` the loop's current task (None: no task). Return the previous one."""
        tasks: Any = sys.modules["asyncio.tasks"]
        try:
            return tasks._swap_current_task(loop, task)
        except (KeyError, RuntimeError):  # 3.12: there was none; since 3.14: the loop is not the running one
            return None

else:

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Make `task` the loop's current task (None: no task). Return the previous one."""
        notes = sys.modules["asyncio.tasks"]._current_tasks
        before = notes.pop(loop, None)
        if task is not None:
            notes[loop] = task
        return before


def current_tasks() -> dict[Any, Any] | None:
    """Return the dict in which asyncio's C functions keep the current task of each loop. Python 3.14 has no
    such dict."""
    if THREAD_HAS_CURRENT_TASK:
        return None
    found: dict[Any, Any] | None = getattr(sys.modules.get("_asyncio"), "_current_tasks", None)
    return found


def listing_of(task: Any) -> tuple[set[Any] | None, Any]:
    """Return the set behind asyncio.all_tasks() and the task's entry in it, or (None, None) since Python
    3.14."""
    tasks: Any = sys.modules["asyncio.tasks"]
    if THREAD_HAS_CURRENT_TASK:
        return None, None
    listed = tasks._scheduled_tasks if SWAPS_CURRENT_TASK else tasks._all_tasks
    return listed.data, weakref.ref(task, listed._remove)
