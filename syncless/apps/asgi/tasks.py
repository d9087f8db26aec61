"""Tasks that continue after the response of their request, and a task for libraries that bind their threads
to a task."""

from __future__ import annotations

import asyncio
from asyncio.base_events import _run_until_complete_cb  # type: ignore[attr-defined]
from typing import Any

from syncless._core.wait.sync import Event
from syncless.asyncio.eventloop import EventLoop
from syncless.http.errors import ClientGone
from syncless.http.log.errorlog import ErrorLog


class Tasks:
    """The tasks of one server: they are kept alive, their errors are logged, and the server waits for them
    when it stops."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._none = Event()
        self._none.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def keep(self, task: asyncio.Task[Any], name: str, error_log: ErrorLog) -> None:
        """Keep the task of the named request running."""

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
        """Wait until all tasks have ended. Return whether they have."""
        return self._none.wait(seconds)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()


class RootTask:
    """A substitute for the task of run_until_complete(), which some libraries look for: a background loop has
    none. The task lasts until end().

    anyio binds its worker threads to that task, and they end with it. Without that task, anyio searches the
    callbacks of all tasks at each call in a thread, and binds the thread to the request's task, so that no
    thread is reused.
    """

    def __init__(self, loop: EventLoop):
        self.loop = loop
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
