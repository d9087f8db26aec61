"""The web server: Provides ``serve(application)``, and ``Server`` for several servers or for use inside a
larger program."""

from typing import TYPE_CHECKING

from syncless.apps.loading import ApplicationFailed, ApplicationNotFound
from syncless.apps.wsgi.adapt import as_wsgi
from syncless.apps.wsgi.client import client_gone, current_request, while_client_stays
from syncless.http.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    ClientError,
    ClientGone,
    ConnectionLost,
    RequestTimeout,
    TrailersTooLarge,
    UpgradeRequired,
)
from syncless.http.limits import Limits
from syncless.http.websocket.websocket import WebSocket, WebSocketClosed
from syncless.server.program.hooks import HookFailed
from syncless.server.program.slot import WorkersFailed
from syncless.server.serve import serve
from syncless.server.server import Server
from syncless.tools.former import teller
from syncless.wsgi.held import hold

__all__ = [
    "ApplicationFailed",
    "ApplicationNotFound",
    "BadRequest",
    "BodyTimeout",
    "BodyTooLarge",
    "ClientError",
    "ClientGone",
    "ConnectionLost",
    "HookFailed",
    "Limits",
    "RequestTimeout",
    "Server",
    "TrailersTooLarge",
    "UpgradeRequired",
    "WebSocket",
    "WebSocketClosed",
    "WorkersFailed",
    "as_wsgi",
    "client_gone",
    "current_request",
    "hold",
    "serve",
    "while_client_stays",
]

if not TYPE_CHECKING:  # a checker would take every name for one that is there
    __getattr__ = teller(
        __name__,
        {
            "BaseHttpWsgiWrapper": "syncless.wsgi.serve(Handler, host, port)",
            "CherryPyWsgiListener": "syncless.wsgi.serve(root, host, port)",
            "RunHttpServer": "syncless.wsgi.serve(app, host, port)",
            "WsgiListener": "syncless.wsgi.Server(app, bind=...).start()",
            "simple": "syncless.wsgi.serve(app, host, port)",
        },
    )
