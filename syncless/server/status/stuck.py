"""Search: looks for tasklets that nothing can wake, when a reader of the status asks for it.

It runs in the loop's thread, because nothing else may run meanwhile, and blocks the loop for seconds in a
large program. So it never runs by itself, and at most once in PAUSE.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

from syncless._core.loop import Loop
from syncless._core.tasklet import spawn_in
from syncless._core.wait.sync import Waits

PAUSE = 30.0
"""Seconds between two searches."""
SHOWN = 50
"""Tasklets, the oldest; of the others only their number is told."""


class Search:
    """Search(loop): of the tasklets of all threads, in this loop's."""

    def __init__(self, loop: Loop) -> None:
        self.found: dict[str, Any] | None = None
        """`at`, and the `seconds` that it took; `tasklets`, and the number of `more`; or an `error`. None
        before the first search."""
        self._loop = loop
        self._began = float("-inf")

    def begin(self) -> None:
        """Search soon, unless the last search began a moment ago."""
        now = time.monotonic()
        if now - self._began >= PAUSE:
            self._began = now
            spawn_in(self._loop, self._run).name = "search for stuck tasklets"

    def _run(self) -> None:
        at, began = time.time(), time.monotonic()
        try:
            found = _find()
        except Exception as error:
            found = {"error": str(error) or type(error).__name__}
        self.found = found | {"at": at, "seconds": time.monotonic() - began}


def _find() -> dict[str, Any]:
    debug = import_module("syncless.debug")
    stuck = debug.find_leaks()
    waits = Waits()  # it looks at all tasklets: once for all that are shown
    shown = [
        {
            "name": tasklet.name,
            "waits_for": tasklet.waiting_for,
            "waits_seconds": tasklet.waiting_seconds,
            "stack": debug.describe(tasklet, True, waits),
        }
        for tasklet in stuck[:SHOWN]
    ]
    return {"tasklets": shown, "more": len(stuck[SHOWN:])}
