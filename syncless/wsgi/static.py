"""A WSGI application beside which files are served (see http/static/mounts.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from syncless.http.static.mounts import StaticFiles


class BesideFiles:
    """Answers requests for static files, and calls the application for all others."""

    def __init__(self, application: Any, files: StaticFiles):
        self.application = application
        self.files = files
        self.prefixes = files.prefixes

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith(self.prefixes):
            answer = self.files.answer(environ)
            if answer is not None:
                start_response(answer.status, answer.headers)
                return answer.body
        return self.application(environ, start_response)  # type: ignore[no-any-return]
