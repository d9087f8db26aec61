"""``python -m syncless module:attribute``: serves an application from the shell.

Exit status: 0 after a graceful stop, 1 if it cannot listen or write its log, 2 if the command line or the application named is wrong.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys

import syncless
from syncless.wsgi import ApplicationNotFound, Limits, as_wsgi, serve


def limit(text: str) -> tuple[str, float]:
    """A --limit argument, NAME=VALUE."""
    name, equals, value = text.partition("=")
    kinds = {field.name: field.default for field in dataclasses.fields(Limits)}
    if not equals or name not in kinds:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE with one of {', '.join(kinds)}")
    try:
        number = float(value) if isinstance(kinds[name], float) else int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is no number") from None
    return name, number


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m syncless",
        description="Serves a WSGI callable, a web.py or CherryPy application or a BaseHTTPRequestHandler class.",
        epilog="Limits and their defaults: "
        + ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(Limits))
        + ". SYNCLESS_LOOP=select or epoll chooses how the loop waits.",
    )
    parser.add_argument(
        "application", help="module:attribute, for example myproject.web:app; the attribute may be left out if it is application or app"
    )
    parser.add_argument(
        "--bind",
        "-b",
        action="append",
        metavar="ADDRESS",
        help="host:port, [ipv6]:port, :port or unix:/path; may be repeated (default 127.0.0.1:8000; port 0 lets the system choose)",
    )
    parser.add_argument(
        "--access-log", metavar="FILE", nargs="?", const="-", help="log each request in Apache's combined format; - or no FILE is stdout"
    )
    parser.add_argument(
        "--limit", "-l", type=limit, action="append", default=[], metavar="NAME=VALUE", help="set a limit, see below; may be repeated"
    )
    parser.add_argument("--chdir", metavar="DIR", help="change to the directory before importing the application")
    parser.add_argument("--reuse-port", action="store_true", help="let several processes listen on the same port (SO_REUSEPORT)")
    parser.add_argument("--no-defer-accept", action="store_true", help="accept connections before their request has come")
    parser.add_argument("--quiet", "-q", action="store_true", help="do not print where it listens")
    parser.add_argument("--version", action="version", version=f"syncless {syncless.__version__}")
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        if options.chdir:
            os.chdir(options.chdir)
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        application = as_wsgi(options.application)
        limits = Limits(**dict(options.limit))
    except (ApplicationNotFound, TypeError, ValueError, OSError) as error:
        if isinstance(error, (ApplicationNotFound, OSError)) or error.__traceback__ is None or _is_ours(error):
            print(f"syncless: {error}", file=sys.stderr)
            return 2
        raise
    try:
        serve(
            application,
            bind=[address if not address.startswith(":") else f"0.0.0.0{address}" for address in options.bind or ["127.0.0.1:8000"]],
            access_log=True if options.access_log == "-" else options.access_log,
            limits=limits,
            defer_accept=not options.no_defer_accept,
            reuse_port=options.reuse_port,
            quiet=options.quiet,
        )
    except ValueError as error:
        print(f"syncless: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or error
        print(f"syncless: {what}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _is_ours(error: BaseException) -> bool:
    """Whether the error was raised by syncless itself, not by the application's module while it was imported."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "syncless" in trace.tb_frame.f_globals.get("__name__", "")


if __name__ == "__main__":
    sys.exit(main())
