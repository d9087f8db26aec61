"""WSGI middleware between the server and the application, and the server's own pages.

It serves static files (http/content/static/files.py), calls hooks before and after each request
(server/program/hooks.py), and tells clients which process has their session (server/affinity.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from syncless.apps.wsgi.application import EnvironRequest
from syncless.apps.wsgi.filewrapper import FileWrapper

if TYPE_CHECKING:
    from syncless.apps.host import Sessions
    from syncless.http.content.static.files import StaticFiles


class StaticFilesMiddleware:
    """Serves static files, and calls the application for all other requests."""

    def __init__(self, application: Any, files: StaticFiles, prefix: str = ""):
        self.application = application
        self.files = files
        self.prefixes = files.prefixes
        self.prefix = prefix
        """Of the application, not of the files."""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = self.prefix + environ["PATH_INFO"]
        if path.startswith(self.prefixes):
            root = environ["SCRIPT_NAME"].removesuffix(self.prefix)
            answer = self.files.answer(EnvironRequest({**environ, "SCRIPT_NAME": root, "PATH_INFO": path}))
            if answer is not None:
                start_response(answer.status, answer.headers)
                return answer.body
        return self.application(environ, start_response)  # type: ignore[no-any-return]


def page(answer: Callable[[str], tuple[str, bytes, str]]) -> Any:
    """Return a WSGI application that serves what ``answer`` returns for the Accept field of a GET: a status,
    a body and a type."""

    def call(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return []
        status, body, content_type = answer(str(environ.get("HTTP_ACCEPT", "")))
        headers = [("Content-Type", content_type), ("Content-Length", str(len(body)))]
        start_response(status, [*headers, ("Cache-Control", "no-store")])
        return [body]

    return call


def nothing_here(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Respond with 404, as the WSGI application of all paths without one."""
    body = b"404 Not Found\nNo application is mounted at this path.\n"
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response("404 Not Found", headers)
    return [body]


Before = Callable[[dict[str, Any]], None]
After = Callable[[dict[str, Any], "str | None"], None]


class HooksMiddleware:
    """Calls ``before(environ)``, the application, then ``after(environ, status)`` at the end of its
    response."""

    def __init__(self, application: Any, before: Before | None, after: After | None):
        self.application = application
        self.before = before
        self.after = after

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if self.before is not None:
            self.before(environ)
        if self.after is None:
            return self.application(environ, start_response)  # type: ignore[no-any-return]
        after = self.after
        statuses: list[str | None] = [None]

        def start(status: str, *rest: Any) -> Any:
            write = start_response(status, *rest)
            statuses[0] = status
            return write

        try:
            result = self.application(environ, start)
        except BaseException:
            after(environ, statuses[0])
            raise
        if result is None or isinstance(result, (list, tuple)):
            after(environ, statuses[0])
            return result  # type: ignore[return-value]
        if type(result) is FileWrapper:  # the server sends its file by sendfile, and calls this at the end
            close = getattr(result, "close", None)
            result.close = lambda: _close(close, lambda: after(environ, statuses[0]))
            return result
        return Closing(result, lambda: after(environ, statuses[0]))


class Closing:
    """A response body; `done` is called when the server closes it."""

    def __init__(self, body: Iterable[bytes], done: Callable[[], None]):
        self._body = body
        self._done = done

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        _close(getattr(self._body, "close", None), self._done)


def _close(close: Callable[[], None] | None, done: Callable[[], None]) -> None:
    try:
        if close is not None:
            close()
    finally:
        done()


class SessionsMiddleware:
    """Adds to responses what tells clients where their sessions are."""

    def __init__(self, application: Any, sessions: Sessions):
        self.application = application
        self.sessions = sessions

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            secure = environ["wsgi.url_scheme"] in ("https", "wss")
            more = self.sessions.fields(environ.get("HTTP_COOKIE", ""), secure, headers)
            return start_response(status, [*headers, *more], *rest)

        return self.application(environ, start)  # type: ignore[no-any-return]
