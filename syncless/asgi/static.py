"""An ASGI application beside which files are served (see http/static/mounts.py)."""

from __future__ import annotations

from typing import Any

from syncless.asgi.request import variables_of
from syncless.http.filepart import FilePart
from syncless.http.static.mounts import StaticFiles


class BesideFiles:
    """Answers requests for static files, and calls the application for all others."""

    def __init__(self, application: Any, files: StaticFiles):
        self.application = application
        self.files = files

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            variables = variables_of({**scope, "root_path": ""})
            if variables["PATH_INFO"].startswith(self.files.prefixes):
                answer = self.files.answer(variables)
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
