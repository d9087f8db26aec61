"""A task for libraries that look for the one that run_until_complete() runs: a background loop has none.

anyio binds its worker threads to that task, and they end with it. Without one it looks at the callbacks of
all tasks for each call in a thread, and then binds the thread to the task of the request, so that no thread
is used twice.
"""

from __future__ import annotations

from asyncio.base_events import _run_until_complete_cb  # type: ignore[attr-defined]

from syncless.asyncio.eventloop import EventLoop


class RootTask:
    """Lasts from its making until end()."""

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
