"""The options of the serving command, as argparse knows them; serving.py says what each becomes."""

from __future__ import annotations

import argparse
import importlib.util
import os
from typing import Any

from syncless.cli.applicationarguments import about_application
from syncless.cli.argumenttypes import certificate, hook, is_address, limit, octal, static
from syncless.cli.config import COMMAND_ONLY, TABLES, ConfigError, Options, from_platform, reason_of, show
from syncless.cli.foreign import Foreign, translated
from syncless.cli.gunicornfile import options_of
from syncless.cli.help import Parser, limit_rows
from syncless.http.errorlog import FORMATS, NAMED
from syncless.patches import AREAS, OFF

Group = argparse._ArgumentGroup


def make_parser() -> Parser:
    parser = Parser(
        prog="syncless",
        argument_default=argparse.SUPPRESS,  # config.py has the defaults, and the other sources of options
        add_help=False,
        usage="syncless [serve] [option ...] application\n"
        "       syncless run program.py [argument ...]\n"
        "       syncless console [PID]\n"
        "       syncless status [ADDRESS]",
        description="Serves a WSGI or ASGI application, a web.py or CherryPy application, "
        "or a BaseHTTPRequestHandler class.",
        epilog=EPILOG,
    )
    for title, add in GROUPS.items():
        add(parser.add_argument_group(title))
    return parser


def _addresses(group: Group) -> None:
    group.add_argument(
        "-b",
        "--bind",
        action="append",
        metavar="ADDRESS",
        help="host:port, [ipv6]:port, :port (all addresses), unix:/path, unix:@abstract or fd:number, "
        "preceded by http:// or https:// if you need both; with port 0 the system chooses one; may be "
        "repeated (default: the sockets that systemd passes, else 127.0.0.1:8000)",
    )
    group.add_argument(
        "--fd", type=int, action="append", metavar="N", help="also serve on this inherited listening socket"
    )
    group.add_argument(
        "--unix-mode", type=octal, metavar="MODE", help="permissions of UNIX sockets, octal (default 660)"
    )
    group.add_argument("--unix-owner", metavar="USER:GROUP", help="owner of UNIX sockets")
    group.add_argument("--ipv6-only", action="store_true", help="[::] does not accept IPv4 connections")
    group.add_argument(
        "--reuse-port",
        action="store_true",
        help="let several processes listen on the same port (SO_REUSEPORT)",
    )
    group.add_argument(
        "--no-defer-accept", action="store_true", help="accept connections before their first request arrives"
    )


def _tls(group: Group) -> None:
    group.add_argument(
        "--certfile",
        metavar="FILE",
        help="serve HTTPS with this PEM certificate chain (and private key, without --keyfile)",
    )
    group.add_argument("--keyfile", metavar="FILE", help="private key of the certificate")
    group.add_argument(
        "--key-password-file",
        metavar="FILE",
        help="file whose first line is the password of the private keys",
    )
    group.add_argument(
        "--certificate",
        dest="certificates",
        type=certificate,
        action="append",
        metavar="NAME=CERT[,KEY]",
        help="another certificate for clients that ask for NAME; may be repeated",
    )
    group.add_argument(
        "--client-ca",
        metavar="FILE",
        help="require client certificates signed by one of these PEM authorities",
    )
    group.add_argument(
        "--ciphers",
        metavar="LIST",
        help="cipher suites of TLS 1.2 in OpenSSL's notation (default: Mozilla's intermediate list)",
    )
    group.add_argument(
        "--tls-minimum", metavar="VERSION", help="oldest version of TLS, 1.2 or 1.3 (default 1.2)"
    )
    group.add_argument("--plain-http", action="store_true", help="also answer plain HTTP on the HTTPS port")


def _static(group: Group) -> None:
    group.add_argument(
        "--static",
        type=static,
        action="append",
        metavar="/PREFIX=DIR",
        help="answer requests below this path with files of this directory; may be repeated",
    )
    group.add_argument(
        "--static-max-age",
        type=int,
        metavar="SECONDS",
        help="time that caches may use such a file without asking again (default 0)",
    )


def _compression(group: Group) -> None:
    group.add_argument(
        "--compress",
        metavar="TYPES",
        nargs="?",
        const="",
        help="compress responses with gzip, and with br and zstd where their libraries are installed; TYPES "
        "are media types, such as text/html,text/css (default: all that gain from it)",
    )
    group.add_argument(
        "--compress-minimum",
        type=int,
        metavar="BYTES",
        help="do not compress smaller bodies (default 1000)",
    )


def _proxies(group: Group) -> None:
    group.add_argument(
        "--trusted",
        action="append",
        metavar="PEER",
        help="believe what this proxy says of its clients: address, network, unix or *; may be repeated",
    )
    group.add_argument(
        "--trusted-field",
        dest="trusted_fields",
        action="append",
        metavar="NAME",
        help="header field that the proxy sets; name all of them (default x-forwarded-for)",
    )
    group.add_argument(
        "--proxy-protocol",
        action="store_true",
        help="trusted peers begin each connection with a PROXY header (version 1 or 2)",
    )


def _logs(group: Group) -> None:
    group.add_argument(
        "--access-log",
        metavar="FILE",
        nargs="?",
        const="-",
        help="log each request in Apache's combined format; to stdout if FILE is - or missing",
    )
    group.add_argument(
        "--no-access-log",
        action="store_true",
        help="no access log, whatever the configuration file says",
    )
    group.add_argument(
        "--access-log-format", metavar="FORMAT", help="combined (default), common, json or Apache's atoms"
    )
    group.add_argument(
        "--error-log",
        metavar="FILE",
        help="write errors to this file instead of stderr (SIGUSR1 reopens log files)",
    )
    group.add_argument(
        "--error-log-format",
        metavar="FORMAT",
        choices=FORMATS,
        help="text (default) or json, one object per line",
    )
    group.add_argument(
        "--log-level",
        choices=[*NAMED],
        help="least severe entries of the error log (default: all); from warning on, print no addresses",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="do not print the addresses")


def _operating(group: Group) -> None:
    group.add_argument(
        "--status",
        metavar="ADDRESS",
        help="serve a status page, JSON and health checks at this local address: :port, "
        "127.0.0.1:port or unix:/path",
    )
    group.add_argument(
        "--status-public",
        action="store_true",
        help="allow addresses of --status and --metrics that other machines can reach",
    )
    group.add_argument(
        "--metrics",
        nargs="?",
        const="",
        metavar="WHERE",
        help="serve metrics for Prometheus: at /metrics of the status address, on another address, or "
        "at this /path of the main addresses (needs syncless[metrics])",
    )


def _processes(group: Group) -> None:
    group.add_argument(
        "-w",
        "--workers",
        type=int,
        metavar="N",
        help="number of worker processes (default 0: serve from this process)",
    )
    group.add_argument(
        "--preload", action="store_true", help="import the application once, before the workers start"
    )
    group.add_argument(
        "--reload",
        action="store_true",
        help="start new workers when a Python or TOML file below the working directory changes",
    )
    group.add_argument(
        "--reload-path",
        action="append",
        metavar="PATH",
        help="also reload when any file below this path changes; may be repeated",
    )
    group.add_argument(
        "-u",
        "--user",
        metavar="USER",
        help="switch to this user once sockets and files are open (needs root)",
    )
    group.add_argument(
        "-g", "--group", metavar="GROUP", help="switch to this group, too (default: the user's)"
    )
    group.add_argument(
        "-m", "--umask", type=octal, metavar="MASK", help="umask of the process, octal, for example 027"
    )
    group.add_argument(
        "--hook",
        dest="hooks",
        type=hook,
        action="append",
        metavar="NAME=MODULE:FUNCTION",
        help="a function to call; NAME is on_start, post_fork, pre_request, post_request, "
        "pre_stop or worker_exit",
    )
    group.add_argument("--pid-file", metavar="FILE", help="write the process ID to this file")


PATCHED_ON_REQUEST = {
    "cpu": "run long computations (compression, hashing) in threads",
    "native": "make C libraries that are known to be safe wait cooperatively",
}
"""Area -> help."""


def _patch(group: Group) -> None:
    group.add_argument(
        "--no-patch",
        action="store_true",
        help="do not patch the standard library: a call that waits holds up all requests",
    )
    on = [area for area in AREAS if area not in OFF]
    group._group_actions.append(
        argparse.Action(["--no-patch-AREA"], "area", nargs=0, help=f"do not patch one area: {', '.join(on)}")
    )
    for area in AREAS:
        turn_on = area in OFF
        group.add_argument(
            f"--{'' if turn_on else 'no-'}patch-{area}",
            dest="areas",
            action="append_const",
            const=(area, turn_on),
            help=PATCHED_ON_REQUEST[area] if turn_on else argparse.SUPPRESS,
        )


def _limits(group: Group) -> None:
    group.add_argument(
        "-l",
        "--limit",
        dest="limits",
        type=limit,
        action="append",
        metavar="NAME=VALUE",
        help="set a limit, in bytes or seconds; may be repeated. --help-all shows all, with their defaults",
    )
    group._group_actions += limit_rows()  # rows of the help, and no options


GROUPS = {
    "application": about_application,
    "addresses": _addresses,
    "TLS": _tls,
    "static files": _static,
    "compression": _compression,
    "proxies": _proxies,
    "logs": _logs,
    "operating": _operating,
    "processes": _processes,
    "patch of the standard library": _patch,
    "limits": _limits,
}
EPILOG = """environment:
  SYNCLESS_NAME=VALUE sets an option, SYNCLESS_LIMIT_NAME=VALUE a limit.
  PORT and WEB_CONCURRENCY apply if nothing else sets --bind and --workers.
  SYNCLESS_LOOP=epoll, kqueue, poll or select chooses how the loop waits.

example:
  syncless myproject.web:app --bind :8000 --workers 4 --limit head_seconds=10
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    """All options: from the command line, the environment and the file, or their defaults. If one is wrong,
    it prints a message and raises SystemExit."""
    parser = make_parser()
    known = Options(parser)
    try:
        given = vars(parser.parse_args(translated(arguments)))
    except Foreign as error:
        parser.error(str(error))
    for name, without in {"access_log": "-", "compress": ""}.items():
        word = given.get(name)
        if "application" not in given and word not in (
            None,
            without,
        ):  # then the last word is the application
            given |= {"application": word, name: without}
    metrics = given.get("metrics")
    if "application" not in given and metrics and not metrics.startswith("/") and not is_address(metrics):
        given |= {"application": metrics, "metrics": ""}
    if given.pop("no_access_log", False):
        given["access_log"] = None
    if given.pop("no_patch", False):
        given["patch"] = False
    try:
        path = given.get("config") or os.environ.get("SYNCLESS_CONFIG")
        if path and path.endswith(".py"):
            file, name = vars(parser.parse_args(translated(options_of(path)))), path
        else:
            file, name = known.from_file(path)
        layers = [
            (known.defaults() | {"patch": True, "logging": None}, "default"),
            (from_platform(os.environ), "PORT or WEB_CONCURRENCY"),
            (file, name),
            (known.from_variables(os.environ), "environment"),
            (given, "command line"),
        ]
    except (ConfigError, Foreign) as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(reason_of(error))
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer, source in layers:
        for dest, value in layer.items():
            # the items of a table may come from several sources
            values[dest] = [*values.get(dest, ()), *value] if dest in TABLES else value
            sources[dest] = source
    options = argparse.Namespace(**{"check": False, "print_config": False, **values})
    if options.print_config:
        shown = {dest: value for dest, value in values.items() if dest not in COMMAND_ONLY}
        print(show(shown, sources), end="")
        raise SystemExit(0)
    if options.application is None and not options.mounts:
        parser.error("name the application to serve, for example myproject.web:app")
    if options.reload:
        if options.preload:
            parser.error(
                "--reload cannot be combined with --preload: "
                "a module imported before the workers start cannot be reloaded"
            )
        if importlib.util.find_spec("watchfiles") is None:
            parser.error("--reload needs watchfiles: pip install 'syncless[reload]'")
        options.workers = options.workers or 1
    options.patch = options.patch and (dict(options.areas) or True)
    if options.factory and options.application and not options.application.endswith(")"):
        if ":" not in options.application:
            parser.error(f"--factory needs the function's name: {options.application}:create_app")
        options.application += "()"
    return options
