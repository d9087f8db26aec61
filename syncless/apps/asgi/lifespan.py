"""The lifespan of an application in one process: its work before the first request and after the last."""

from __future__ import annotations

import asyncio
from typing import Any

from syncless.apps.loading import ApplicationFailed, own_traceback
from syncless.http.log.errorlog import ErrorLog

VERSIONS = {"version": "3.0", "spec_version": "2.0"}


class _WrongMessage(RuntimeError):
    """Raised if an application accepts the lifespan scope, but does not speak the protocol."""


class Lifespan:
    """Calls the application with a `lifespan` scope. An application that raises before it asks for a message
    has no lifespan. ``errors`` is the server's log."""

    def __init__(self, application: Any, errors: ErrorLog):
        self._application = application
        self._errors = errors
        self.state: dict[str, Any] = {}
        """The application's own, for its requests."""
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._started = asyncio.Event()
        self._stopped = asyncio.Event()
        self._asked = False
        self._failure: str | None = None
        self._task: asyncio.Task[None] | None = None

    async def startup(self) -> bool:
        """Return whether the application has a lifespan. Raise ApplicationFailed if its start fails."""
        self._task = asyncio.create_task(self._run())
        self._messages.put_nowait({"type": "lifespan.startup"})
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait([self._task, started], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._failure is not None:
            await self._end()
            raise ApplicationFailed(self._failure)
        if not self._started.is_set():
            error = self._task.exception()
            if error is not None and self._asked and not isinstance(error, _WrongMessage):
                raise ApplicationFailed(own_traceback(error))
            return False
        return True

    async def shutdown(self) -> None:
        """Tell the application that the last response has been sent, and wait for its shutdown."""
        if self._task is None or self._task.done():
            return
        self._messages.put_nowait({"type": "lifespan.shutdown"})
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait([self._task, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if self._failure is not None:
            self._errors.warning(f"the application failed at shutdown:\n{self._failure}")
        elif self._task.done() and not self._task.cancelled() and (error := self._task.exception()):
            self._errors.warning(f"the application failed at shutdown:\n{own_traceback(error)}")
        await self._end()

    async def _end(self) -> None:
        assert self._task is not None
        done, _ = await asyncio.wait([self._task], timeout=1)
        if not done:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1)

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(VERSIONS), "state": self.state}
        await self._application(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        self._asked = True
        return await self._messages.get()

    async def _send(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "lifespan.startup.complete":
            self._started.set()
        elif kind == "lifespan.shutdown.complete":
            self._stopped.set()
        elif kind in ("lifespan.startup.failed", "lifespan.shutdown.failed"):
            self._failure = str(message.get("message") or "the application gave no reason") + "\n"
            (self._started if kind == "lifespan.startup.failed" else self._stopped).set()
        else:
            raise _WrongMessage(f"an application cannot send the message {kind!r} in its lifespan")
