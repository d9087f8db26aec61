"""Task.uncancel() of Python 3.13, for Python 3.11 and 3.12.

Fact: cancel() marks a task, whose next await raises CancelledError. asyncio.timeout() and TaskGroup call it
for their block, and uncancel() when the block ends. Danger: here they may call it while the block waits in a
call that blocks. If that call is the last thing in the block, the mark outlives the block, and an await after
it raises. In any other loop the task cannot be running then. Decision: as since Python 3.13, uncancel() takes
the mark away with the last request. Price: one Python call for each timeout that was over. Guarded by
tests/asyncio/test_cancellation.py.
"""

from __future__ import annotations

import sys
from asyncio import Task
from typing import Any

from syncless._core.cpython.layouts import UnknownLayout, checked
from syncless._core.cpython.replacing import set_in_type
from syncless.asyncio.callbacks import Callbacks


def _mend() -> None:
    try:
        drop_cancellation = checked("tasks of asyncio")
    except UnknownLayout:
        return  # such tasks keep their own
    original: Any = Task.uncancel  # type: ignore[attr-defined, unused-ignore]

    def uncancel(self: Any) -> int:
        """Task.uncancel"""
        left: int = original(self)
        if left == 0 and isinstance(self.get_loop(), Callbacks):
            drop_cancellation(self)
        return left

    set_in_type(Task, "uncancel", uncancel)


if (3, 11) <= sys.version_info < (3, 13):
    _mend()
