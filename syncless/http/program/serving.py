"""A program that serves until it is told to stop: from its own process, or by several that it supervises."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from syncless.http.errorlog import configure
from syncless.http.program.blocking import Patch, StallWarning, patch_process, warn_of_blocking_modules
from syncless.http.program.master import Master
from syncless.http.program.pidfile import PidFile
from syncless.http.server import Server


def serve_until_stopped(
    server_type: type[Server],
    application: Any,
    host: str,
    port: int,
    *,
    patch: Patch,
    quiet: bool,
    workers: int,
    preload: bool,
    pid_file: str | os.PathLike[str] | None,
    logging: Mapping[str, Any] | None,
    **options: Any,
) -> None:
    """What `serve` does, with the Server of a kind of application. ``options``: more arguments for it."""
    configure(logging)
    with PidFile(pid_file):
        if workers:
            Master(
                server_type,
                application,
                host,
                port,
                workers=workers,
                preload=preload,
                patch=patch,
                quiet=quiet,
                **options,
            ).run()
            return
        patch_process(patch)
        server = server_type(application, host, port, **options)
        if quiet:
            server.run(quiet=True)
            return
        warn_of_blocking_modules()
        with StallWarning():
            server.run()
