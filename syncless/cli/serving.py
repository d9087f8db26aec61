"""``syncless APP`` serves an application.

The exit status is 0 after a graceful shutdown, 1 if the server cannot listen or open a file, 2 if the command
line or the application is wrong, 3 if no worker could start.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import io
import os
import sys
from typing import Any

from syncless.apps.loading import admit, admitted, enter, hold_back
from syncless.cli.arguments import parse
from syncless.cli.config import of_option, reason_of, text_of
from syncless.cli.reloading import until_it_starts, watched
from syncless.cli.sources import Chosen, as_written
from syncless.http.log.errorlog import configure, write_from
from syncless.http.log.notices import flush
from syncless.io.guardedfiles import is_privileged, will_give_up
from syncless.server.addresses import systemd_fds
from syncless.server.kinds import Declared, as_host
from syncless.server.options import PROGRAM, ROWS, SERVER
from syncless.server.program.hooks import Hooks
from syncless.server.program.preparing import nothing_yet, share
from syncless.server.program.privileges import Privileges
from syncless.server.program.process import PidFile, set_title
from syncless.server.program.unwritten import flush_before_fork
from syncless.server.serve import Patching
from syncless.server.status.options import StatusOptions
from syncless.wsgi import (
    ApplicationFailed,
    ApplicationNotFound,
    HookFailed,
    Limits,
    Server,
    WorkersFailed,
    serve,
)


def serve_command(arguments: list[str]) -> int:
    """Serve until a signal stops the server. Return the exit status."""
    options = parse(arguments)
    name = str(Declared(names_of(options)))
    becomes = options.user is not None or options.group is not None  # and imports then
    here = not (options.check or options.workers or becomes)  # else they are patched and import later
    try:
        chdir = os.path.abspath(options.chdir) if options.chdir else None
        with of_option("--chdir"):
            enter(chdir or ".")
        sys.path[:0] = options.app_dir
        if becomes and is_privileged():
            will_give_up()
            hold_back()
        if options.env_file is not None:
            set_variables(options.env_file)
        if options.log_level is not None:
            options.quiet |= not write_from(options.log_level)
        if here:
            PidFile(options.pid_file).check()
            Patching(options.patch)()
        application = Declared.of(names_of(options), options.interface, options.root_path, options.lifespan)
        if here:
            application = as_host(application)
        settings = settings_of(options)
        if options.check:
            _check(options, application, settings)
            print(f"syncless: {name} can be served")
            return 0
    except (ApplicationFailed, ApplicationNotFound, HookFailed, TypeError, ValueError) as error:
        return _refuse(name, error, options)
    except OSError as error:
        return _refuse_file(error, options, 1 if isinstance(error, FileExistsError) else 2)
    if options.preload and options.workers:
        flush_before_fork()
        gc.collect()
        gc.freeze()  # so that no worker's collector copies pages with the interpreter's objects and ours
    set_title("master" if options.workers else "", name)
    program = {
        **arguments_of(options, PROGRAM),
        "chdir": chdir,
        "shared_metrics": not options.no_shared_metrics,
    }
    run = functools.partial(serve, application, **program, **settings)
    try:
        with contextlib.ExitStack() as watchers:
            if options.reload_certificates:
                watchers.enter_context(watched(certificates_of(options), "certificates"))
            if options.reload:
                watchers.enter_context(watched(options.reload_path))
                until_it_starts(run)
            else:
                run()
    except WorkersFailed as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 3
    except (ApplicationFailed, ApplicationNotFound, HookFailed, ValueError) as error:
        return _refuse(name, error, options)
    except OSError as error:
        return _refuse_file(error, options, 1)
    except KeyboardInterrupt:
        return 130
    finally:
        flush()
    return 0


def _check(options: argparse.Namespace, application: Any, settings: dict[str, Any]) -> None:
    """Check everything that `serve` would use, in the same order: the user's code is imported as that
    user."""
    privileges = Privileges.of(options.user, options.group)
    native, threads = settings.pop("native"), settings.pop("native_threads")
    program = arguments_of(options, PROGRAM)
    shown = (program["status"], program["metrics"], program["status_public"])
    StatusOptions.of(*shown, health=program["health"])
    server = Server(nothing_yet, **settings)
    share(program["shared"])
    with admitted():
        configure(options.logging, None if privileges is None else privileges.ids)
    Patching(options.patch)()  # before it is another user, who may be unable to read our files
    if privileges is not None:
        privileges.drop()
        admit()
    as_host(application)
    if native:
        server.handle_natively(native, threads)
    Hooks(dict(options.hooks)).load_all()


def names_of(options: argparse.Namespace) -> Any:
    """Return the application's name, or the names of several applications by path."""
    named = {"/": options.application} if options.application else {}
    mounts = dict(options.mounts)
    return {**named, **mounts} if mounts else options.application


def set_variables(path: str) -> None:
    """Set variables from a file of NAME=VALUE lines unless the environment has them. Raise OSError or
    ValueError on failure."""
    try:
        from dotenv import load_dotenv
    except ImportError:
        raise ValueError("--env-file needs python-dotenv: pip install 'syncless[env]'") from None
    with of_option("--env-file"):
        load_dotenv(stream=io.StringIO(text_of(path)))


def _refuse_file(error: OSError, options: Chosen, status: int) -> int:
    print(f"syncless: {as_written(reason_of(error), options)}", file=sys.stderr)
    return status


def _refuse(application: str, error: Exception, options: Chosen) -> int:
    """Print why the application cannot be served, and return the exit status."""
    if isinstance(error, ApplicationFailed):
        print(f"syncless: {application} raised an error:\n{error}", end="", file=sys.stderr)
    else:
        print(f"syncless: {as_written(str(error).rstrip(), options)}", file=sys.stderr)
    return 2


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a `Server` for these options. Raise TypeError or ValueError on failure."""
    binds = [*options.bind, *(f"fd:{fd}" for fd in options.fd)] or [f"fd:{fd}" for fd in systemd_fds()]
    return {
        **arguments_of(options, SERVER),
        "bind": binds or ["127.0.0.1:8000"],
        "key_password": _first_line(options.key_password_file) if options.key_password_file else None,
        "limits": Limits(**dict(options.limits)),
        "defer_accept": not options.no_defer_accept,
    }


def arguments_of(options: argparse.Namespace, where: str) -> dict[str, Any]:
    """Return the options that are arguments of `where`, in the form in which a caller writes them."""
    arguments = {}
    for option in ROWS:
        if option.where == where and option.name in options:
            value = getattr(options, option.name)
            value = dict(value) if option.default == {} else value
            arguments[option.name] = True if value is not None and value == option.bare else value
    return arguments


def certificates_of(options: argparse.Namespace) -> list[str]:
    """Return the files that are read again after SIGHUP."""
    others = [files for _, files in options.certificates]
    named = [file for files in others for file in ([files] if isinstance(files, str) else files)]
    return [file for file in (options.certfile, options.keyfile, options.client_ca, *named) if file]


def _first_line(path: str) -> str:
    with of_option("--key-password-file"):
        return text_of(path).partition("\n")[0].rstrip("\r")
