"""Which kind of application is served: WSGI, ASGI, or several by their paths."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from syncless.apps.asgi.adapt import as_asgi, is_asgi, is_asgi2
from syncless.apps.loading import load
from syncless.apps.wsgi.adapt import as_wsgi
from syncless.server.mounts import Behind, Mounts

INTERFACES = ("auto", "asgi", "wsgi")
LIFESPANS = ("auto", "on", "off")


class Declared(NamedTuple):
    """An application of which its user says more than its name."""

    application: Any
    interface: str = "auto"
    root_path: str = ""
    lifespan: str = "auto"

    @classmethod
    def of(
        cls, application: Any, interface: str = "auto", root_path: str | None = None, lifespan: str = "auto"
    ) -> Any:
        """The application itself where there is nothing to say. ValueError."""
        if interface not in INTERFACES:
            raise ValueError(f"interface must be one of {', '.join(INTERFACES)}, not {interface!r}")
        if lifespan not in LIFESPANS:
            raise ValueError(f"lifespan must be one of {', '.join(LIFESPANS)}, not {lifespan!r}")
        if root_path and not root_path.startswith("/"):
            raise ValueError(f"root_path is a path such as /api, not {root_path!r}")
        declared = cls(application, interface, (root_path or "").rstrip("/"), lifespan)
        plain = declared[1:] == cls(application)[1:] and not isinstance(application, Mapping)
        return application if plain else declared

    def __str__(self) -> str:
        if isinstance(self.application, Mapping):
            return ", ".join(f"{prefix}={application}" for prefix, application in self.application.items())
        return str(self.application)


def as_served(application: Any) -> Any:
    """The WSGI callable, the Host of an ASGI application, or the Mounts that a Server serves. TypeError for
    what cannot be served, and the errors of `load` for a name."""
    more = Declared(application)
    if isinstance(application, Declared):
        more, application = application, application.application
    if isinstance(application, Mapping):
        return Mounts(
            {prefix: as_served(more._replace(application=one)) for prefix, one in application.items()}
        )
    if isinstance(application, str):
        try:
            return as_served(more._replace(application=load(application)))
        except TypeError as error:
            raise TypeError(f"{application}: {error}") from None
    if isinstance(application, Behind) or hasattr(application, "begin_in"):
        return application
    asked = more.interface
    if asked == "wsgi" or (asked == "auto" and not (is_asgi(application) or is_asgi2(application))):
        served = as_wsgi(application)
        return Behind(served, more.root_path) if more.root_path else served
    hosts = importlib.import_module("syncless.apps.asgi.host")  # and with it asyncio, for those who use it
    call = as_asgi(application)
    return hosts.Host(hosts.Behind(call, more.root_path) if more.root_path else call, more.lifespan)
