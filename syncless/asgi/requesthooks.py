"""An ASGI application with functions called before and after each request (see http/program/hooks.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless.asgi.request import variables_of

Before = Callable[[dict[str, Any]], None]
After = Callable[[dict[str, Any], "str | None"], None]


class Hooked:
    """Calls ``before(variables)``, the application, and ``after(variables, status)`` when it has ended. The
    request's variables are those of CGI, with its scope as "asgi.scope"."""

    def __init__(self, application: Any, before: Before | None, after: After | None):
        self.application = application
        self.before = before
        self.after = after

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        variables = variables_of(scope) | {"asgi.scope": scope}
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
