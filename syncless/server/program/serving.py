"""A program that serves until a signal stops it: from its own process, or with several that it supervises."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from syncless.apps.host import Hook
from syncless.apps.loading import admitted, enter, hold_back, refuse_while_importing
from syncless.http import running
from syncless.http.limits import defaults
from syncless.http.log.errorlog import configure, warn
from syncless.http.log.notices import open_missing
from syncless.io.guardedfiles import is_privileged, will_give_up
from syncless.server.kinds import as_host
from syncless.server.program.banner import Events
from syncless.server.program.blocking import StallWarning, warn_of_blocking_modules
from syncless.server.program.firstprocess import begin_in_child
from syncless.server.program.hooks import Hooks
from syncless.server.program.master import Master
from syncless.server.program.preparing import Preparation, share
from syncless.server.program.privileges import Privileges
from syncless.server.program.process import PidFile
from syncless.server.program.reporting import OfProcess, shown
from syncless.server.serve import Patching
from syncless.server.server import limits_of
from syncless.server.status.metrics import share_application_metrics
from syncless.server.status.options import StatusOptions

if TYPE_CHECKING:
    from syncless.server.serve import Patch


def serve_until_stopped(
    application: Any,
    host: str,
    port: int,
    *,  # from options.py, by python -m scripts.docs.options
    chdir: str | os.PathLike[str] | None,
    logging: Mapping[str, Any] | None,
    quiet: bool,
    status: str | None,
    status_public: bool,
    health: str | None,
    metrics: bool | str | None,
    shared_metrics: bool,
    workers: int | Literal["auto"],
    affinity: str | None,
    shared: str | None,
    preload: bool,
    user: str | int | None,
    group: str | int | None,
    umask: int | None,
    hooks: Mapping[str, Hook | str] | None,
    pid_file: str | os.PathLike[str] | None,
    patch: Patch,
    **options: Any,
) -> None:
    """Run `serve`. ``options`` are further arguments for its Server."""
    began = time.monotonic()
    patching = Patching(patch)
    refuse_while_importing()
    open_missing()
    begin_in_child()
    folder = None if chdir is None else os.path.abspath(chdir)
    if folder is not None:
        enter(folder)
        _by_name(folder, options)
    privileges, native = Privileges.of(user, group), {}
    if privileges is not None:
        if is_privileged():
            will_give_up()
            hold_back()
            pid_file = _by_name_of_files(folder, options, pid_file)
            native = {name: options.pop(name) for name in ("native", "native_threads") if name in options}
        if options.get("unix_owner") is None:
            options["unix_owner"] = privileges.owner()
    preparation = Preparation(Hooks(hooks), privileges, folder, **native)
    if umask is not None:
        os.umask(umask)
    seen = StatusOptions.of(
        status, metrics, status_public, options.get("unix_mode"), options.get("unix_owner"), health
    )
    with admitted():
        configure(logging, None if privileges is None else privileges.ids)
    given = {name: value for name, value in options.items() if name in defaults()}
    running.expect(limits_of(options.get("limits"), given))  # syncless.shared asks, in an application too
    share(shared)
    with PidFile(pid_file, None if workers else privileges):
        if workers:
            Master(
                application,
                host,
                port,
                workers=workers,
                preload=preload,
                patch=patching,
                events=Events(quiet, began),
                preparation=preparation,
                status=seen,
                shared_metrics=shared_metrics,
                affinity=affinity,
                **options,
            ).run()
            return
        if affinity is not None:
            raise ValueError("affinity chooses one of several workers: add workers")
        patching()
        if shared_metrics and seen.shows_metrics:
            share_application_metrics(1)
        if privileges is None:  # errors of the application come before its sockets
            application = as_host(application)
        server = preparation.make_server(host, port, **options)
        silent = quiet or server.standby_threads  # a takeover is told by itself
        with shown(seen, server) as view, contextlib.nullcontext() if silent else StallWarning(server):
            server.run(
                quiet=quiet,
                began=began,
                delay=server.limits.stop_delay_seconds,
                status_urls=view.status.urls if view else (),
                bound=lambda: preparation.take(server, application, "on_start"),
                started=lambda: _started(view, seen, quiet),
                told=lambda: _told(view),
                stopping=lambda: preparation.hooks.call_at_end("pre_stop"),
            )


def _by_name(folder: str, options: dict[str, Any]) -> None:
    """Make the paths of certificates absolute. The folder's name may mean another one when the files are
    reloaded."""
    for name in ("certfile", "keyfile", "client_ca"):
        if options.get(name) is not None:
            options[name] = os.path.join(folder, options[name])
    if options.get("certificates"):
        options["certificates"] = {
            host: os.path.join(folder, files)
            if isinstance(files, str)
            else tuple(os.path.join(folder, file) for file in files)
            for host, files in options["certificates"].items()
        }


def _by_name_of_files(
    folder: str | None, options: dict[str, Any], pid_file: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | None:
    """Make the paths of log files and of the PID file absolute, and return the latter, where root becomes
    another user. Otherwise, anyone who can replace the folder would choose their directory."""
    if folder is None:
        return pid_file
    for name in ("access_log", "error_log"):
        if isinstance(options.get(name), (str, os.PathLike)):
            options[name] = os.path.join(folder, options[name])
    return None if pid_file is None else os.path.join(folder, pid_file)


def _started(view: OfProcess | None, seen: StatusOptions, quiet: bool) -> None:
    if view is not None:
        view.state = "ready"
    if seen.warning:
        warn(seen.warning)
    if not quiet:
        warn_of_blocking_modules()


def _told(view: OfProcess | None) -> None:
    """Report that the server is no longer ready, at the signal to stop."""
    if view is not None:
        view.state = "stopping"
