"""Several applications in one server, each for the paths below a prefix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from syncless.server.server import Server


class Mounts:
    """Stands for the applications in a Server: by prefix, the longest first; the last prefix is ""."""

    def __init__(self, applications: Mapping[str, Any]):
        for prefix in applications:
            if not prefix.startswith("/") or "//" in prefix:
                raise ValueError(f"applications are mounted at paths such as /api or /, not at {prefix!r}")
        self.applications = {prefix.rstrip("/"): application for prefix, application in applications.items()}
        if len(self.applications) < len(applications):
            raise ValueError(f"a path has two applications: {', '.join(applications)}")
        self.applications.setdefault("", nothing_here)

    def begin_in(self, server: Server) -> None:
        """The lifespan of each begins."""
        begun = []
        try:
            for application in self.applications.values():
                if hasattr(application, "begin_in"):
                    application.begin_in(server)
                    begun.append(application)
        except BaseException:
            for application in begun:
                application.end_in(server, 0.0)
            raise

    def end_in(self, server: Server, seconds: float) -> None:
        """The lifespan of each ends."""
        for application in self.applications.values():
            if hasattr(application, "end_in"):
                application.end_in(server, seconds)


def nothing_here(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """A WSGI application where there is none."""
    body = b"404 Not Found\nNo application is mounted at this path.\n"
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response("404 Not Found", headers)
    return [body]


class Behind(NamedTuple):
    """Stands in a Server for a WSGI application below a path that a proxy has taken away, for its links to
    itself."""

    application: Any
    path: str
