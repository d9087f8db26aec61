"""Which kind of application is served: WSGI, ASGI, or several by their paths."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from syncless.asgi.adapt import as_asgi, is_asgi, is_asgi2
from syncless.http.program.loading import load
from syncless.wsgi.adapt import as_wsgi
from syncless.wsgi.mounts import Mounts

INTERFACES = ("auto", "asgi", "wsgi")


class Declared(NamedTuple):
    """An application whose kind its user names."""

    application: Any
    interface: str

    @classmethod
    def of(cls, application: Any, interface: str) -> Any:
        """The application itself where it is to be told by its looks. ValueError."""
        if interface not in INTERFACES:
            raise ValueError(f"interface must be one of {', '.join(INTERFACES)}, not {interface!r}")
        if interface == "auto" and not isinstance(application, Mapping):
            return application
        return cls(application, interface)

    def __str__(self) -> str:
        if isinstance(self.application, Mapping):
            return ", ".join(f"{prefix}={application}" for prefix, application in self.application.items())
        return str(self.application)


def as_served(application: Any) -> Any:
    """The WSGI callable, the Host of an ASGI application, or the Mounts that a Server serves. TypeError for
    what cannot be served, and the errors of `load` for a name."""
    interface = "auto"
    if isinstance(application, Declared):
        application, interface = application
    if isinstance(application, Mapping):
        return Mounts({prefix: as_served(Declared.of(one, interface)) for prefix, one in application.items()})
    if isinstance(application, str):
        application = load(application)
    if hasattr(application, "begin_in"):
        return application
    if interface == "wsgi" or (interface == "auto" and not (is_asgi(application) or is_asgi2(application))):
        return as_wsgi(application)
    hosts = importlib.import_module("syncless.asgi.host")  # and with it asyncio, for those who use it
    return hosts.Host(as_asgi(application))
