"""The application kinds: WSGI, ASGI, or a mapping of paths to applications."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from syncless.apps.asgi.adapt import as_asgi, is_asgi, is_asgi2
from syncless.apps.host import Host
from syncless.apps.loading import load
from syncless.apps.wsgi.adapt import as_wsgi
from syncless.apps.wsgi.host import WSGIHost
from syncless.http.errors import require_one_of
from syncless.server.mounts import Mounts

INTERFACES = ("auto", "asgi", "wsgi")
LIFESPANS = ("auto", "on", "off")


class Declared(NamedTuple):
    """An application with declared properties, such as its interface."""

    application: Any
    interface: str = "auto"
    root_path: str = ""
    lifespan: str = "auto"

    @classmethod
    def of(
        cls, application: Any, interface: str = "auto", root_path: str | None = None, lifespan: str = "auto"
    ) -> Any:
        """Return the application itself if nothing is declared. Raise ValueError on failure."""
        require_one_of("interface", interface, INTERFACES)
        require_one_of("lifespan", lifespan, LIFESPANS)
        if root_path and not root_path.startswith("/"):
            raise ValueError(f"root_path must be a path such as /api, not {root_path!r}")
        declared = cls(application, interface, (root_path or "").rstrip("/"), lifespan)
        plain = declared[1:] == cls(application)[1:] and not isinstance(application, Mapping)
        return application if plain else declared

    def __str__(self) -> str:
        if isinstance(self.application, Mapping):
            return ", ".join(f"{prefix}={application}" for prefix, application in self.application.items())
        return str(self.application)


def as_host(application: Any) -> Host:
    """Return the host for an application. Raise TypeError if it cannot be served, or the errors of `load` for
    a name."""
    more = Declared(application)
    if isinstance(application, Declared):
        more, application = application, application.application
    if isinstance(application, Mapping):
        named = application.items()
        return Mounts({prefix: as_host(more._replace(application=one)) for prefix, one in named})
    if isinstance(application, str):
        try:
            return as_host(more._replace(application=load(application)))
        except TypeError as error:
            raise TypeError(f"{application}: {error}") from None
    if isinstance(application, Host):
        return application
    asked = more.interface
    if asked == "wsgi" or (asked == "auto" and not (is_asgi(application) or is_asgi2(application))):
        return WSGIHost(as_wsgi(application), more.root_path)
    asgi = importlib.import_module("syncless.apps.asgi.host")  # and with it asyncio, for those who use it
    host: Host = asgi.ASGIHost(as_asgi(application), more.root_path, more.lifespan)
    return host
