"""ASGI middleware between the server and the application.

It serves static files (http/content/static/files.py), calls hooks before and after each request
(server/program/hooks.py), and tells clients which process has their session (server/affinity.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from syncless.apps.asgi.exchange import ScopeRequest
from syncless.http.content.filepart import FilePart
from syncless.http.content.static.files import StaticFiles

if TYPE_CHECKING:
    from syncless.apps.host import Sessions

BEGINNINGS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
"""Messages with the headers of a response."""


class StaticFilesMiddleware:
    """Serves static files, and calls the application for all other requests."""

    def __init__(self, application: Any, files: StaticFiles):
        self.application = application
        self.files = files

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = ScopeRequest({**scope, "root_path": ""})
            if request.path.startswith(self.files.prefixes):
                answer = self.files.answer(request)
                if answer is not None:
                    await self._give(answer, send)
                    return
        await self.application(scope, receive, send)

    async def _give(self, answer: Any, send: Any) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        await send({"type": "http.response.start", "status": int(answer.status[:3]), "headers": headers})
        try:
            if isinstance(answer.body, FilePart):
                part = {"file": answer.body, "offset": answer.body.offset, "count": answer.body.size}
                await send({"type": "http.response.zerocopysend", **part})
                return
            for block in answer.body:
                await send({"type": "http.response.body", "body": block, "more_body": True})
        finally:
            close = getattr(answer.body, "close", None)
            if close is not None:
                close()
        await send({"type": "http.response.body"})


Before = Callable[[dict[str, Any]], None]
After = Callable[[dict[str, Any], "str | None"], None]


class HooksMiddleware:
    """Calls ``before(variables)``, the application, then ``after(variables, status)``. The variables are the
    request's CGI variables, with its scope as "asgi.scope"."""

    def __init__(self, application: Any, before: Before | None, after: After | None):
        self.application = application
        self.before = before
        self.after = after

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        variables = ScopeRequest(scope).variables() | {"asgi.scope": scope}
        status: str | None = None

        async def note(message: dict[str, Any]) -> None:
            nonlocal status
            if message.get("type") in ("http.response.start", "websocket.http.response.start"):
                status = str(message.get("status"))
            elif message.get("type") == "websocket.accept":
                status = "101"
            await send(message)

        if self.before is not None:
            self.before(variables)
        try:
            await self.application(scope, receive, note)
        finally:
            if self.after is not None:
                self.after(variables, status)


class SessionsMiddleware:
    """Adds to responses what tells clients where their sessions are."""

    def __init__(self, application: Any, sessions: Sessions):
        self.application = application
        self.sessions = sessions

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        async def note(message: dict[str, Any]) -> None:
            if message.get("type") in BEGINNINGS:
                fields = list(message.get("headers") or ())
                asked = [value.decode("latin-1") for name, value in scope["headers"] if name == b"cookie"]
                told = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in fields)
                more = self.sessions.fields("; ".join(asked), scope["scheme"] in ("https", "wss"), told)
                fields += [(name.encode(), value.encode()) for name, value in more]
                message = {**message, "headers": fields}
            await send(message)

        await self.application(scope, receive, send if scope["type"] == "lifespan" else note)
