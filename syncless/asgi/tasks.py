"""Tasks of requests that have been answered: background work that goes on."""

from __future__ import annotations

import asyncio
from typing import Any

from syncless._core.wait.sync import Event
from syncless.http.errorlog import ErrorLog
from syncless.http.errors import ClientGone


class Tasks:
    """Those of one server. It keeps them alive, logs their errors, and waits for them when it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._none = Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def keep(self, task: asyncio.Task[Any], name: str, error_log: ErrorLog) -> None:
        """The task of the request with that name goes on."""

        def ended(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            if not self._tasks:
                self._none.set()
            if task.cancelled():
                return
            error = task.exception()
            if error is not None and not isinstance(error, ClientGone):
                error_log.error(f"Error in {name}, after its response:", error)

        self._tasks.add(task)
        self._none.clear()
        task.add_done_callback(ended)

    def wait(self, seconds: float) -> bool:
        """Waits for their end. Returns whether all have ended."""
        return self._none.wait(seconds)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
