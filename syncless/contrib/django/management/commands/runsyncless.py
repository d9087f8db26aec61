"""``manage.py runsyncless [address] [--workers N]``: Django's runserver with our server in place of its own.

Checks, auto-reload and static files are Django's. The standard library is patched, so a view that waits does
not hold up others, and threads are tasklets.
"""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, TextIO, cast

from django.apps import apps
from django.contrib.staticfiles.management.commands import runserver
from django.core.management.base import CommandError

import syncless
from syncless.http.program.preparing import nothing_yet
from syncless.patches import patch_all
from syncless.wsgi import Limits, Server, serve

ACCESS_LOG = '%>s "%r" %>s %B'
"""The status, and the line that Django's own server would log."""


class Command(runserver.Command):
    help = "Serves the project by syncless: while a view waits, others answer."

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--workers",
            type=int,
            default=0,
            metavar="N",
            help="Number of worker processes (default 0: serve from this one). They do not reload.",
        )

    def get_handler(self, *args: Any, **options: Any) -> Any:
        options["use_static_handler"] &= apps.is_installed("django.contrib.staticfiles")
        return super().get_handler(*args, **options)

    def run(self, **options: Any) -> None:
        if options["workers"] < 0:
            raise CommandError("--workers must be 0 or more.")
        options["use_threading"] = False  # each request is a tasklet
        self.server_cls: Any = OneProcess
        if options["workers"]:
            options["use_reloader"] = False
            self.server_cls = partial(SeveralProcesses, workers=options["workers"])
        else:
            patch_all(strict=True)
        super().run(**options)

    def on_bind(self, server_port: int) -> None:
        host = f"[{self.addr}]" if self._raw_ipv6 else "0.0.0.0" if self.addr == "0" else self.addr
        self.stdout.write(
            f"Django {self.get_version()}, syncless {syncless.__version__}: "
            f"http://{host}:{server_port}/\nQuit the server with Ctrl-C."
        )


class OneProcess:
    """As Django uses the server of the standard library: it binds, is given its application, and serves."""

    def __init__(self, address: tuple[str, int], handler: Any, ipv6: bool = False):
        self._application: Callable[..., Any] = nothing_yet
        self._server = Server(
            lambda environ, start_response: self._application(environ, start_response),
            *address,
            access_log=cast(TextIO, Requests()),
            access_log_format=ACCESS_LOG,
        )
        self._server.start()
        self.server_port = self._server.port

    def set_app(self, application: Any) -> None:
        self._application = application

    def serve_forever(self) -> None:
        try:
            self._server.wait()
        finally:
            self._server.stop(0)


class SeveralProcesses:
    """The same by workers, which its caller has given the project as it is now."""

    def __init__(self, address: tuple[str, int], handler: Any, ipv6: bool = False, *, workers: int):
        family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self._socket = socket.create_server(address, family=family, backlog=Limits().backlog)
        self._workers = workers
        self.server_port = self._socket.getsockname()[1]

    def set_app(self, application: Any) -> None:
        self._application = application

    def serve_forever(self) -> None:
        serve(
            self._application,
            bind=f"fd:{self._socket.detach()}",
            workers=self._workers,
            patch=True,
            quiet=True,
            access_log=cast(TextIO, Requests()),
            access_log_format=ACCESS_LOG,
        )


class Requests(io.TextIOBase):
    """The access log, as entries of the logger of Django's own server."""

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
