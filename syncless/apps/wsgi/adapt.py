"""Turns any kind of application that can be served into a WSGI callable.

The kinds are a WSGI callable; a web.py application; a CherryPy application, root object or class; a
BaseHTTPRequestHandler subclass; or the name of any of these, see loading.py. Nothing here imports a
framework: attributes identify each kind.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from syncless.apps.asgi.adapt import is_asgi
from syncless.apps.loading import load
from syncless.apps.signature import WSGI, check

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

WSGIApplication = Callable[..., Iterable[bytes]]


def as_wsgi(application: Any) -> WSGIApplication:
    """Return the WSGI callable for anything that can be served. Raise TypeError for anything else, and the
    errors of `load` for a name."""
    if isinstance(application, str):
        application = load(application)
    if is_asgi(application):
        raise TypeError(
            f"expected a WSGI application, but {application!r} is an ASGI application; serve it with the "
            "command syncless, without --interface, or wrap it: a2wsgi.ASGIMiddleware(app)"
        )
    if isinstance(application, type):
        if _is_handler(application):
            return _HandlerApplication(application)
        if _is_cherrypy_root(application):
            return _cherrypy(application())
    wsgifunc = getattr(application, "wsgifunc", None)
    if callable(wsgifunc) and not isinstance(application, type):
        return wsgifunc()  # type: ignore[no-any-return]
    if _is_cherrypy_root(application):
        return _cherrypy(application)
    if callable(application):
        check(application, WSGI)
        return application  # type: ignore[no-any-return]
    raise TypeError(
        f"cannot serve {application!r}: it is not a WSGI callable, ASGI application, web.py application, "
        "CherryPy application or root, BaseHTTPRequestHandler class or 'module:attribute'"
    )


def _is_handler(application: type) -> bool:
    server = sys.modules.get("http.server")  # a subclass has imported it
    return server is not None and issubclass(application, server.BaseHTTPRequestHandler)


def _is_cherrypy_root(thing: Any) -> bool:
    """Return whether the thing has a method that CherryPy's decorator has exposed."""
    return "cherrypy" in sys.modules and any(
        getattr(getattr(thing, name, None), "exposed", False) is True
        for name in dir(thing)
        if not name.startswith("__")
    )


def _cherrypy(root: Any) -> WSGIApplication:
    cherrypy = sys.modules["cherrypy"]
    cherrypy.config.update({"log.screen": False, "engine.autoreload.on": False, "checker.on": False})
    return cherrypy.tree.mount(root, "")  # type: ignore[no-any-return]


class _RequestFile(io.BufferedIOBase):
    """The input of a handler: the head, rebuilt from the environ, then the body."""

    def __init__(self, environ: dict[str, Any]):
        lines = [f"{environ['REQUEST_METHOD']} {request_target(environ)} {environ['SERVER_PROTOCOL']}"]
        for key, value in environ.items():
            if key.startswith("HTTP_") or key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                lines.append(f"{key.removeprefix('HTTP_').replace('_', '-').title()}: {value}")
        self._head = io.BytesIO("\r\n".join([*lines, "", ""]).encode("latin-1"))
        self._body = environ["wsgi.input"]

    def readable(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._head.readline(-1 if size is None else size) or self._body.readline(size)

    def read(self, size: int | None = -1, /) -> bytes:
        return self._head.read(size) or self._body.read(size)

    def read1(self, size: int = -1, /) -> bytes:
        read1 = getattr(self._body, "read1", self._body.read)  # other servers need not have it
        return self._head.read1(size) or read1(size)


def request_target(environ: dict[str, Any]) -> str:
    """Return the path and query of the request, quoted for a request line."""
    path = quote(environ["PATH_INFO"].encode("latin-1"), safe="/:@!$&'()*+,;=~-._")
    return f"{path}?{environ['QUERY_STRING']}" if environ["QUERY_STRING"] else path


class _ResponseFile(io.RawIOBase):
    """The output of a handler: its head goes to start_response(), its body to write()."""

    def __init__(self, start_response: Callable[..., Callable[[bytes], None]]):
        self._start_response = start_response
        self._head = b""
        self._write: Callable[[bytes], None] | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        data = bytes(data)
        size = len(data)
        if self._write is None:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return size
            status, *lines = head.decode("latin-1").split("\r\n")
            headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
            if status.startswith("HTTP/1.1 100"):  # the server has said so itself
                self._head = data
                return size
            self._write = self._start_response(status.partition(" ")[2], headers)
        if data:
            self._write(data)
        return size


class _HandlerApplication:
    """A BaseHTTPRequestHandler subclass as a WSGI application: one handler object for each request."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]):
        class Handler(handler):  # type: ignore[valid-type,misc]
            def setup(self) -> None:
                environ, start_response = self.request
                self.environ = environ
                self.rfile = _RequestFile(environ)
                self.wfile = _ResponseFile(start_response)
                self.connection = None

            def handle(self) -> None:
                self.close_connection = True
                self.handle_one_request()

            def handle_expect_100(self) -> bool:
                return True

            def finish(self) -> None:
                pass

            def log_message(self, format: str, *args: Any) -> None:
                """Do nothing: the server writes the access log."""

        self._handler = Handler

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        address = (environ["REMOTE_ADDR"], int(environ["REMOTE_PORT"] or 0))
        self._handler((environ, start_response), address, None)
        return []
