"""A program that serves until it is told to stop: from its own process, or by several that it supervises."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from syncless.http.errorlog import configure
from syncless.http.program.blocking import Patch, StallWarning, patch_process, warn_of_blocking_modules
from syncless.http.program.hooks import Hook, Hooks
from syncless.http.program.master import Master
from syncless.http.program.pidfile import PidFile
from syncless.http.program.preparing import Preparation
from syncless.http.program.privileges import Privileges
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
    hooks: Mapping[str, Hook | str] | None,
    user: str | int | None,
    group: str | int | None,
    umask: int | None,
    **options: Any,
) -> None:
    """What `serve` does, with the Server of a kind of application. ``options``: more arguments for it."""
    preparation = Preparation(Hooks(hooks), Privileges.of(user, group))
    if preparation.privileges is not None and options.get("unix_owner") is None:
        options["unix_owner"] = preparation.privileges.owner()
    if umask is not None:
        os.umask(umask)
    configure(logging)
    with PidFile(pid_file, None if workers else preparation.privileges):
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
                preparation=preparation,
                **options,
            ).run()
            return
        patch_process(patch)
        if preparation.privileges is None:  # errors of the application come before its sockets
            application = server_type.adapt(application)
        server = preparation.make_server(lambda it: server_type(it, host, port, **options), application)
        with contextlib.nullcontext() if quiet else StallWarning():
            server.run(
                quiet=quiet,
                bound=lambda: preparation.take(server, "on_start"),
                started=None if quiet else warn_of_blocking_modules,
                stopping=lambda: preparation.hooks.call_at_end("pre_stop"),
            )
