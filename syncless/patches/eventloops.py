"""asyncio: which of its loops runs is noted by the interpreter for the OS thread; under the patch it is noted for the tasklet.

So several tasklets can be in asyncio.run() at the same time, as several threads can. What a loop waits in is patched by polling.py.
"""

from __future__ import annotations

import sys
from typing import Any

from syncless._core.tasklet import current
from syncless.patches.imports import when_imported
from syncless.patches.registry import Patcher


class _Running:
    """Takes the note of a tasklet's loop away while others run: the interpreter's own, and the hooks for asynchronous generators."""

    def __init__(self, loop: Any, note: Any):
        self.loop = loop
        self.note = note
        self.hooks: Any = (None, None)

    def __call__(self, leaving: bool) -> None:
        if leaving:
            self.hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, None)
            self.note(None)
        else:
            self.note(self.loop)
            sys.set_asyncgen_hooks(*self.hooks)


def _note_per_tasklet(patcher: Patcher, events: Any) -> None:
    note = events._set_running_loop

    def set_running_loop(loop: Any, /) -> None:
        """asyncio._set_running_loop"""
        note(loop)
        tasklet = current()
        if tasklet is not None:
            tasklet.set_switch_hook(None if loop is None else _Running(loop, note))

    patcher.rebind(events, "_set_running_loop", set_running_loop, "notes it for all tasklets of a thread")


def patch(patcher: Patcher) -> None:
    when_imported(patcher, "asyncio.events", _note_per_tasklet)
