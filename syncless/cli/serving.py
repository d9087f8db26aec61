"""``syncless APP``: serves an application.

Exit status: 0 after a graceful stop, 1 if it cannot listen or open a file, 2 if the command line or the application is wrong, 3 if no
worker could start.
"""

from __future__ import annotations

import os
import sys

from syncless.cli.arguments import parse
from syncless.wsgi import ApplicationFailed, ApplicationNotFound, Limits, WorkersFailed, as_wsgi, serve
from syncless.wsgi.addresses import systemd_fds
from syncless.wsgi.blocking import patch_process
from syncless.wsgi.notices import flush


def serve_command(arguments: list[str]) -> int:
    """Serves until it is told to stop; returns the exit status."""
    options = parse(arguments)
    try:
        if options.chdir:
            os.chdir(options.chdir)
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        application = options.application
        if not options.workers:
            patch_process(options.patch)
        if options.preload or not options.workers:
            application = as_wsgi(application)
        limits = Limits(**dict(options.limit))
    except ApplicationFailed as error:
        print(f"syncless: {options.application} raised an error:\n{error}", end="", file=sys.stderr)
        return 2
    except (ApplicationNotFound, TypeError, ValueError, OSError) as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 2
    binds = [*(options.bind or []), *(f"fd:{fd}" for fd in options.fd)] or [f"fd:{fd}" for fd in systemd_fds()]
    try:
        serve(
            application,
            bind=binds or ["127.0.0.1:8000"],
            unix_mode=options.unix_mode,
            unix_owner=options.unix_owner,
            ipv6_only=options.ipv6_only,
            certfile=options.cert,
            keyfile=options.key,
            certificates=dict(options.sni) or None,
            plain_http=options.plain_http,
            trusted=options.trusted,
            trusted_fields=options.trusted_field or ("x-forwarded-for", "x-forwarded-proto"),
            proxy_protocol=options.proxy_protocol,
            access_log=True if options.access_log == "-" else options.access_log,
            access_log_format=options.access_log_format,
            error_log=options.error_log,
            limits=limits,
            defer_accept=not options.no_defer_accept,
            reuse_port=options.reuse_port,
            workers=options.workers,
            patch=options.patch,
            preload=options.preload,
            pid_file=options.pid,
            quiet=options.quiet,
        )
    except WorkersFailed as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 3
    except ValueError as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
        print(f"syncless: {what}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        flush()
    return 0
