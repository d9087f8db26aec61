"""An ASGI application in one process: its loop, its lifespan, and its requests on each address."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from urllib.parse import quote

from syncless.apps.asgi.application import ASGIApplication
from syncless.apps.asgi.exchange import HTTP_EXTENSIONS
from syncless.apps.asgi.extensions import STOPPING
from syncless.apps.asgi.lifespan import Lifespan
from syncless.apps.asgi.middleware import HooksMiddleware, SessionsMiddleware, StaticFilesMiddleware
from syncless.apps.asgi.tasks import RootTask, Tasks
from syncless.apps.host import Hook, Host, Place, Serving, Sessions
from syncless.apps.loading import ApplicationFailed
from syncless.apps.wsgi.host import pages_at
from syncless.asyncio.backgroundloop import await_, background_loop
from syncless.asyncio.eventloop import running_loop
from syncless.http.exchange import Application, MountedApplications

VERSIONS = {"version": "3.0", "spec_version": "2.4"}


class Behind:
    """Wraps an application below a path that a proxy removes, so that its links to itself are right."""

    def __init__(self, application: Any, path: str):
        self.application = application
        self.path = path

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            path = self.path
            raw = quote(path).encode() + scope["raw_path"]
            longer = {"path": path + scope["path"], "raw_path": raw, "root_path": path + scope["root_path"]}
            scope = {**scope, **longer}
        await self.application(scope, receive, send)


class ASGIHost(Host):
    """An ASGI application. ``root_path`` is the path for Behind; ``lifespan`` is "auto", "on" or "off", see
    `serve`."""

    def __init__(self, application: Any, root_path: str = "", lifespan: str = "auto"):
        self.call = Behind(application, root_path) if root_path else application
        self.lifespan = lifespan
        self._loop: Any = None
        self._lifespan: Lifespan | None = None
        self._state: dict[str, Any] | None = None
        self._tasks: Tasks | None = None
        self._root: RootTask | None = None
        self._stopping = asyncio.Event()
        """Set when the server is told to stop."""

    def begin(self, server: Serving) -> None:
        if server.compression is not None:
            raise ValueError(
                "compress works only for WSGI applications; for ASGI, use a middleware of the framework, "
                "such as starlette.middleware.gzip.GZipMiddleware"
            )
        self._loop = running_loop()
        if self._loop is None:
            self._loop = background_loop()
            self._root = RootTask(self._loop)
        self._tasks = Tasks()
        self._stopping = stopping = asyncio.Event()
        server.told_to_stop.add_done_callback(lambda _: stopping.set())
        await_(self._start(server))

    async def _start(self, server: Serving) -> None:
        server.request_slots.use()
        if self.lifespan == "off":
            return
        lifespan = Lifespan(self.call, server.logs.errors)
        if not await lifespan.startup():
            if self.lifespan == "on":
                raise ApplicationFailed(
                    'lifespan is "on", but the application does not support lifespan events'
                )
        else:
            self._lifespan, self._state = lifespan, lifespan.state

    def end(self, seconds: float) -> None:
        """End the application, and cancel background work that takes longer than `seconds`."""
        if self._tasks is not None and not self._tasks.wait(seconds):
            self._tasks.cancel()
            self._tasks.wait(1.0)
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is not None:
            await_(lifespan.shutdown())
        root, self._root = self._root, None
        if root is not None and not root.loop.is_closed():
            await_(root.end())

    def with_hooks(self, before: Hook | None, after: Hook | None) -> ASGIHost:
        return ASGIHost(HooksMiddleware(self.call, before, after), lifespan=self.lifespan)

    def with_sessions(self, sessions: Sessions) -> ASGIHost:
        return ASGIHost(SessionsMiddleware(self.call, sessions), lifespan=self.lifespan)

    def at(self, place: Place) -> Application:
        server, address = place.server, place.address
        call = self.call if server.static is None else StaticFilesMiddleware(self.call, server.static)
        template = {
            "asgi": VERSIONS,
            "scheme": "http",
            "server": address[:2] if isinstance(address, tuple) else (os.fsdecode(address), None),
            "root_path": place.prefix,
            "extensions": {**HTTP_EXTENSIONS, STOPPING: {"event": self._stopping}},
        }
        application = ASGIApplication(
            call,
            template,
            0 if place.pages else place.heads,
            tasks=self._tasks,
            loop=self._loop,
            limits=server.limits,
            state=self._state,
            forward=server.forwarding,
        )
        return MountedApplications({}, pages_at(place), application) if place.pages else application
