"""The web server: ``serve(application)`` and, for more than one or inside a larger program, ``Server``."""

from syncless.wsgi.adapt import ApplicationNotFound, as_wsgi
from syncless.wsgi.errors import BadRequest, BodyTimeout, BodyTooLarge, ClientError, ClientGone
from syncless.wsgi.limits import Limits
from syncless.wsgi.server import Server, serve

__all__ = [
    "ApplicationNotFound",
    "BadRequest",
    "BodyTimeout",
    "BodyTooLarge",
    "ClientError",
    "ClientGone",
    "Limits",
    "Server",
    "as_wsgi",
    "serve",
]
