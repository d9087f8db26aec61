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
        debug = import_module("syncless.debug")
        found: dict[str, Any] = {"at": time.time()}
        began = time.monotonic()
        try:
            stuck = debug.find_leaks()
        except Exception as error:
            self.found = found | {"error": str(error) or type(error).__name__}
            return
        found["seconds"] = time.monotonic() - began
        found["tasklets"] = [
            {
                "name": tasklet.name,
                "waits_for": tasklet.waiting_for,
                "waits_seconds": tasklet.waiting_seconds,
                "stack": debug.format_stuck([tasklet]),
            }
            for tasklet in stuck[:SHOWN]
        ]
        found["more"] = len(stuck[SHOWN:])
        self.found = found
