"""A WSGI application in a server, with its environ and its middleware."""

from __future__ import annotations

import importlib
from typing import Any

import syncless
from syncless.apps.host import Hook, Host, Place, Sessions
from syncless.apps.wsgi.application import WSGIApplication
from syncless.apps.wsgi.client import client_gone, early_hints
from syncless.apps.wsgi.filewrapper import FileWrapper
from syncless.apps.wsgi.middleware import HooksMiddleware, SessionsMiddleware, StaticFilesMiddleware
from syncless.apps.wsgi.websocket import websocket_offer


class WSGIHost(Host):
    """A WSGI application. ``root_path`` is a path that a proxy removes; the application needs it for its
    links."""

    def __init__(self, call: Any, root_path: str = ""):
        self.call = call
        self.root_path = root_path

    def at(self, place: Place) -> WSGIApplication:
        server, call = place.server, self.call
        root, prefix = (path.encode().decode("latin-1") for path in (self.root_path, place.prefix))
        if server.static is not None:
            call = StaticFilesMiddleware(call, server.static, prefix)
        if server.compression is not None:
            compress = importlib.import_module("syncless.apps.wsgi.compress")
            call = compress.Compressed(call, server.compression)
        return WSGIApplication(
            call,
            {**template(place), "SCRIPT_NAME": root + prefix},
            place.heads,
            forward=server.forwarding,
            websocket=websocket_offer(server.limits, server.logs.errors),
            pages=dict(place.pages) or None,
            prefix=prefix,
        )

    def with_hooks(self, before: Hook | None, after: Hook | None) -> WSGIHost:
        return WSGIHost(HooksMiddleware(self.call, before, after), self.root_path)

    def with_sessions(self, sessions: Sessions) -> WSGIHost:
        return WSGIHost(SessionsMiddleware(self.call, sessions), self.root_path)


def pages_at(place: Place) -> dict[str, WSGIApplication]:
    """Return the pages of a place, for kinds of applications that do not serve them themselves."""
    return {path: WSGIHost(page).at(place.below("")) for path, page in place.pages.items()}


def template(place: Place) -> dict[str, Any]:
    """Return the keys with which every environ of a listener begins (PEP 3333, "environ Variables")."""
    server = place.server
    return {
        "SERVER_NAME": place.name,
        **({"SERVER_PORT": place.port} if place.port else {}),
        "SERVER_SOFTWARE": f"syncless/{syncless.__version__}",
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SCRIPT_NAME": "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.errors": server.logs.errors,
        "wsgi.multithread": True,  # another request may run whenever one waits
        "wsgi.multiprocess": server.multiprocess,
        "wsgi.run_once": False,
        "wsgi.file_wrapper": FileWrapper,
        "wsgi.input_terminated": True,
        "wsgi.early_hints": early_hints,
        "syncless.client_gone": client_gone,
        "syncless.stopping": server.told_to_stop,
    }
