"""The functions by which asyncio notes, for an OS thread, which loop runs and which task is its current one;
and which tasks there are.

The patch rebinds the first wherever it stands as a global of a module (patches/eventloops.py), so the
original is kept here, where it does not look.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

_originals: list[Callable[[Any], None]] = []


def note_of_running_loop(events: ModuleType) -> Callable[[Any], None]:
    """The original `_set_running_loop(loop)` of asyncio.events; the loop is None for no loop."""
    if not _originals:
        _originals.append(events._set_running_loop)
    return _originals[0]


if sys.version_info >= (3, 12):

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Makes it the loop's current task, None for no task. Returns the last one."""
        tasks: Any = sys.modules["asyncio.tasks"]
        try:
            return tasks._swap_current_task(loop, task)
        except (KeyError, RuntimeError):  # 3.12: there was none; since 3.14: the loop is not the running one
            return None

else:

    def swap_current_task(loop: Any, task: Any) -> Any:
        """Makes it the loop's current task, None for no task. Returns the last one."""
        notes = sys.modules["asyncio.tasks"]._current_tasks
        before = notes.pop(loop, None)
        if task is not None:
            notes[loop] = task
        return before


def listing_of(task: Any) -> tuple[Callable[[Any], None], Callable[[Any], None], Any]:
    """Two functions of C that put a task into asyncio.all_tasks() and take it away, and their argument."""
    tasks: Any = sys.modules["asyncio.tasks"]
    if sys.version_info >= (3, 14):
        return tasks._register_task, tasks._unregister_task, task
    listed = tasks._scheduled_tasks if sys.version_info >= (3, 12) else tasks._all_tasks
    return listed.data.add, listed.data.discard, weakref.ref(task, listed._remove)
