"""WebSockets for WSGI applications: ``environ["wsgi.websocket"]``, see http/websocket/websocket.py.

::

    def application(environ, start_response):
        websocket = environ.get("wsgi.websocket")
        if websocket is None:
            ...                                     # an ordinary request
        for message in websocket:                   # str or bytes, until the client closes
            websocket.send(message)
        return []

accept(), or the first receive() or send(), completes the handshake. An application that never calls them can
refuse with an ordinary response. This needs ``pip install 'syncless[websocket]'``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from syncless.apps.wsgi.application import EnvironRequest
from syncless.apps.wsgi.upgradesocket import UpgradeSocket
from syncless.http.exchange import Upgrade
from syncless.http.limits import Limits
from syncless.http.log.errorlog import ErrorLog
from syncless.http.websocket.websocket import WebSocket, has_library, tell_missing


def websocket_offer(limits: Limits, error_log: ErrorLog) -> Callable[[Upgrade, dict[str, Any]], None]:
    """Return a function for requests that ask for a WebSocket: the function adds one to the environ, and a
    socket for libraries with their own protocol code."""
    found = has_library()

    def offer(upgrade: Upgrade, environ: dict[str, Any]) -> None:
        request = EnvironRequest(environ.copy())  # which is no cycle with the environ
        environ["werkzeug.socket"] = UpgradeSocket(upgrade)
        if found:
            environ["wsgi.websocket"] = WebSocket(upgrade, request, limits)
        else:  # the library of the application may take the socket
            upgrade.untaken = tell

    def tell() -> None:
        tell_missing(error_log)

    return offer
