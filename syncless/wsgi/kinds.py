"""Which kind of application is served: WSGI, ASGI, or several by their paths."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from syncless.asgi.adapt import as_asgi, is_asgi, is_asgi2
from syncless.http.program.loading import load
from syncless.wsgi.adapt import as_wsgi

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
        return application if interface == "auto" else cls(application, interface)

    def __str__(self) -> str:
        return str(self.application)


def as_served(application: Any) -> Any:
    """The WSGI callable, or the Host of an ASGI application, that a Server serves. TypeError for what
    cannot be served, and the errors of `load` for a name."""
    interface = "auto"
    if isinstance(application, Declared):
        application, interface = application
    if isinstance(application, str):
        application = load(application)
    if hasattr(application, "begin_in"):
        return application
    if interface == "wsgi" or (interface == "auto" and not (is_asgi(application) or is_asgi2(application))):
        return as_wsgi(application)
    hosts = importlib.import_module("syncless.asgi.host")  # and with it asyncio, for those who use it
    return hosts.Host(as_asgi(application))
