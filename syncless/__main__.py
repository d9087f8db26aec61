"""``python -m syncless module:attribute`` serves an application; ``run program.py`` runs a program, patched; ``console`` is a prompt.

Exit status: 0 after a graceful stop, 1 if it cannot listen or open a file, 2 if the command line or the application named is wrong, 3 if no
worker could start.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys

import syncless
from syncless.console import attach, listen_if_asked
from syncless.console.here import interact
from syncless.patches import patch_all
from syncless.patches.program import run
from syncless.wsgi import ApplicationNotFound, Limits, WorkersFailed, as_wsgi, serve
from syncless.wsgi.addresses import systemd_fds
from syncless.wsgi.notices import flush


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


def octal(text: str) -> int:
    """A --unix-mode argument."""
    try:
        return int(text, 8)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write an octal number such as 660") from None


def sni(text: str) -> tuple[str, str | tuple[str, str]]:
    """A --sni argument, NAME=CERT or NAME=CERT,KEY."""
    name, equals, files = text.partition("=")
    certfile, _, keyfile = files.partition(",")
    if not equals or not certfile:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=CERT or NAME=CERT,KEY")
    return name, (certfile, keyfile) if keyfile else certfile


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m syncless",
        usage="python -m syncless [option ...] application\n       python -m syncless run program.py [argument ...]\n"
        "       python -m syncless console [PID]",
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
        help="host:port, [ipv6]:port, :port (all addresses), unix:/path, unix:@abstract or fd:number, with http:// or https:// before it "
        "where they differ; may be repeated (default: the sockets that systemd hands over, else 127.0.0.1:8000; the system chooses port 0)",
    )
    parser.add_argument("--fd", type=int, action="append", default=[], metavar="N", help="serve on this inherited listening socket, too")
    parser.add_argument("--unix-mode", type=octal, metavar="MODE", help="of UNIX sockets, octal (660)")
    parser.add_argument("--unix-owner", metavar="USER:GROUP", help="of UNIX sockets")
    parser.add_argument("--ipv6-only", action="store_true", help="[::] does not take IPv4 connections, too")
    parser.add_argument("--cert", metavar="FILE", help="serve HTTPS with this PEM certificate chain (and private key, without --key)")
    parser.add_argument("--key", metavar="FILE", help="its private key")
    parser.add_argument(
        "--sni", type=sni, action="append", default=[], metavar="NAME=CERT[,KEY]", help="another certificate for clients that ask for NAME"
    )
    parser.add_argument("--plain-http", action="store_true", help="answer plain HTTP on the HTTPS port, too")
    parser.add_argument(
        "--trusted",
        action="append",
        default=[],
        metavar="PEER",
        help="believe what this proxy says of its clients: address, network, unix or *",
    )
    parser.add_argument(
        "--trusted-field", action="append", metavar="NAME", help="which fields it sets (default x-forwarded-for and x-forwarded-proto)"
    )
    parser.add_argument("--proxy-protocol", action="store_true", help="trusted peers begin with a PROXY header (version 1 or 2)")
    parser.add_argument("--access-log-format", default="combined", metavar="FORMAT", help="combined, common, json or Apache's atoms")
    parser.add_argument("--error-log", metavar="FILE", help="where errors go instead of stderr; SIGUSR1 opens log files anew")
    parser.add_argument(
        "--access-log", metavar="FILE", nargs="?", const="-", help="log each request in Apache's combined format; - or no FILE is stdout"
    )
    parser.add_argument(
        "--limit", "-l", type=limit, action="append", default=[], metavar="NAME=VALUE", help="set a limit, see below; may be repeated"
    )
    parser.add_argument("--chdir", metavar="DIR", help="change to the directory before importing the application")
    parser.add_argument("--reuse-port", action="store_true", help="let several processes listen on the same port (SO_REUSEPORT)")
    parser.add_argument("--no-defer-accept", action="store_true", help="accept connections before their request has come")
    parser.add_argument("--workers", "-w", type=int, default=0, metavar="N", help="so many processes serve, and this one supervises them")
    parser.add_argument("--preload", action="store_true", help="import the application once, before the workers start")
    parser.add_argument("--pid", metavar="FILE", help="write the process number there")
    parser.add_argument("--quiet", "-q", action="store_true", help="do not print where it listens")
    parser.add_argument("--version", action="version", version=f"syncless {syncless.__version__}")
    return parser


CONSOLE_USAGE = """usage: python -m syncless console [PID | PATH]

A Python prompt beside which tasklets run; with a process number, or the path of a UNIX socket, a prompt in that process: it was started
with SYNCLESS_CONSOLE=1 in its environment (a server, or python -m syncless run), or has called syncless.console.listen().
"""


def console(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(CONSOLE_USAGE, end="")
        return 0
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(CONSOLE_USAGE, end="", file=sys.stderr)
        return 2
    if arguments:
        return attach(arguments[0])
    patch_all()
    interact()
    return 0


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["run"]:
        with listen_if_asked() or contextlib.nullcontext():
            return run(arguments[1:])
    if arguments[:1] == ["console"]:
        return console(arguments[1:])
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        if options.chdir:
            os.chdir(options.chdir)
        if "" not in sys.path and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        application = options.application if options.workers and not options.preload else as_wsgi(options.application)
        limits = Limits(**dict(options.limit))
    except (ApplicationNotFound, TypeError, ValueError, OSError) as error:
        if isinstance(error, (ApplicationNotFound, OSError)) or error.__traceback__ is None or _is_ours(error):
            print(f"syncless: {error}", file=sys.stderr)
            return 2
        raise
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


def _is_ours(error: BaseException) -> bool:
    """Whether the error was raised by syncless itself, not by the application's module while it was imported."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "syncless" in trace.tb_frame.f_globals.get("__name__", "")


if __name__ == "__main__":
    sys.exit(main())
