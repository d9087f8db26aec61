"""``manage.py runsyncless [address] [--workers N]``: Django's runserver with our server in place of its own.

Checks, auto-reload and static files are Django's. The standard library is patched, so a view that waits does
not block others, and threads are tasklets. A project with ASGI_APPLICATION, such as one with Channels, is
served by ASGI, as with daphne's runserver.
"""

from __future__ import annotations

import io
import logging
import socket
from functools import partial
from typing import Any, TextIO, cast

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.contrib.staticfiles.management.commands import runserver
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.utils.module_loading import import_string

import syncless
from syncless.patches import patch_all
from syncless.wsgi import Limits, Server, serve

ACCESS_LOG = '%>s "%r" %>s %B'
"""The status, and the line that Django's own server would log."""


class Command(runserver.Command):
    help = "Serves the project with syncless: while a view waits, other views run."

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--workers",
            type=int,
            default=0,
            metavar="N",
            help="Number of worker processes (default 0: serve from this process). They do not reload.",
        )
        parser.add_argument(
            "--noasgi",
            action="store_false",
            dest="use_asgi",
            help="Serve WSGI_APPLICATION even if the settings have ASGI_APPLICATION.",
        )

    def get_handler(self, *args: Any, **options: Any) -> Any:
        options["use_static_handler"] &= apps.is_installed("django.contrib.staticfiles")
        if self.interface == "wsgi":
            return super().get_handler(*args, **options)
        application = asgi_application()
        if options["use_static_handler"] and (settings.DEBUG or options["insecure_serving"]):
            return ASGIStaticFilesHandler(application)
        return application

    def run(self, **options: Any) -> None:
        if options["workers"] < 0:
            raise CommandError("--workers must be 0 or more.")
        options["use_threading"] = False  # each request is a tasklet
        uses_asgi = options["use_asgi"] and getattr(settings, "ASGI_APPLICATION", None)
        self.interface = "asgi" if uses_asgi else "wsgi"
        self.server_cls: Any = partial(DjangoServer, interface=self.interface, workers=options["workers"])
        if options["workers"]:
            options["use_reloader"] = False
        else:
            patch_all(strict=True)
        super().run(**options)

    def on_bind(self, server_port: int) -> None:
        host = f"[{self.addr}]" if self._raw_ipv6 else "0.0.0.0" if self.addr == "0" else self.addr
        self.stdout.write(
            f"Django {self.get_version()}, syncless {syncless.__version__} ({self.interface.upper()}): "
            f"http://{host}:{server_port}/\nQuit the server with Ctrl-C."
        )


def asgi_application() -> Any:
    """Return the project's ASGI application, as django.core.servers.basehttp does for WSGI."""
    try:
        return import_string(settings.ASGI_APPLICATION)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"ASGI application {settings.ASGI_APPLICATION!r} could not be loaded; error importing module."
        ) from error


class DjangoServer:
    """A server with the interface that Django uses: it binds, receives its application, and serves. Workers,
    if there are any, do not reload the project."""

    def __init__(
        self, address: tuple[str, int], handler: Any, ipv6: bool = False, *, interface: str, workers: int
    ):
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self._socket = socket.create_server(address, family=family, backlog=Limits().backlog)
        self.server_port = self._socket.getsockname()[1]
        self._interface = interface
        self._workers = workers

    def set_app(self, application: Any) -> None:
        self._application = application

    def serve_forever(self) -> None:
        options: Any = {
            "bind": f"fd:{self._socket.detach()}",
            "interface": self._interface,
            "lifespan": "off",  # Django and Channels have none
            "access_log": cast(TextIO, Requests()),
            "access_log_format": ACCESS_LOG,
        }
        if self._workers:
            serve(self._application, workers=self._workers, patch=True, quiet=True, **options)
            return
        server = Server(self._application, **options).start()
        try:
            server.wait()
        finally:
            server.stop(0)


class Requests(io.TextIOBase):
    """An access log that writes to the logger of Django's own server."""

    def isatty(self) -> bool:
        return True  # a line is logged as it comes

    def write(self, lines: str) -> int:
        logger = logging.getLogger("django.server")
        for line in lines.splitlines():
            status, _, text = line.partition(" ")
            code = int(status) if status.isdecimal() else 0
            level = logging.ERROR if code >= 500 else logging.WARNING if code >= 400 else logging.INFO
            logger.log(level, "%s", text, extra={"status_code": code})
        return len(lines)
