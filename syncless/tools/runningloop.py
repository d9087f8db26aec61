"""The functions by which asyncio notes, for an OS thread, which loop runs and which task is its current one;
and which tasks there are.
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
    """Return the original `_set_running_loop(loop)` of asyncio.events; the loop is None for no loop."""
    note: Callable[[Any], None] = original_of(events._set_running_loop)
    return note


if SWAPS_CURRENT_TASK:

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Make it the loop's current task, None for no task. Return the last one."""
        tasks: Any = sys.modules["asyncio.tasks"]
        try:
            return tasks._swap_current_task(loop, task)
        except (KeyError, RuntimeError):  # 3.12: there was none; since 3.14: the loop is not the running one
            return None

else:

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Make it the loop's current task, None for no task. Return the last one."""
        notes = sys.modules["asyncio.tasks"]._current_tasks
        before = notes.pop(loop, None)
        if task is not None:
            notes[loop] = task
        return before


def current_tasks() -> dict[Any, Any] | None:
    """Return the dict of asyncio's C functions: loop -> its current task. Python 3.14 has no such dict."""
    if THREAD_HAS_CURRENT_TASK:
        return None
    found: dict[Any, Any] | None = getattr(sys.modules.get("_asyncio"), "_current_tasks", None)
    return found


def listing_of(task: Any) -> tuple[set[Any] | None, Any]:
    """Return the set behind asyncio.all_tasks(), and the task's entry in it; no set since Python 3.14."""
    tasks: Any = sys.modules["asyncio.tasks"]
    if THREAD_HAS_CURRENT_TASK:
        return None, None
    listed = tasks._scheduled_tasks if SWAPS_CURRENT_TASK else tasks._all_tasks
    return listed.data, weakref.ref(task, listed._remove)
