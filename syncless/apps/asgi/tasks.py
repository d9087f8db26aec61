"""Tasks of requests that have been answered: background work that goes on. And one for libraries that bind
their threads to a task."""

from __future__ import annotations

import asyncio
from asyncio.base_events import _run_until_complete_cb  # type: ignore[attr-defined]
from typing import Any

from syncless._core.wait.sync import Event
from syncless.asyncio.eventloop import EventLoop
from syncless.http.errors import ClientGone
from syncless.http.log.errorlog import ErrorLog


class Tasks:
    """Those of one server. It keeps them alive, logs their errors, and waits for them when it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._none = Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def keep(self, task: asyncio.Task[Any], name: str, error_log: ErrorLog) -> None:
        """Keep the task of the request with that name running."""

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
        """Wait for their end. Return whether all have ended."""
        return self._none.wait(seconds)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class RootTask:
    """A task for libraries that look for the one that run_until_complete() runs: a background loop has none.
    Lasts from its making until end().

    anyio binds its worker threads to that task, and they end with it. Without one it looks at the callbacks
    of all tasks for each call in a thread, and then binds the thread to the task of the request, so that no
    thread is used twice.
    """

    def __init__(self, loop: EventLoop):
        self._ended = loop.create_future()
        self._task = loop.create_task(self._run())
        self._task.set_name("syncless server")
        self._task.add_done_callback(_run_until_complete_cb)  # by it such a task is known

    async def _run(self) -> None:
        await self._ended

    async def end(self) -> None:
        self._task.remove_done_callback(_run_until_complete_cb)  # it would stop the loop
        self._ended.set_result(None)
        await self._task
