"""The parser for the options of the serving command (server/options.py)."""

from __future__ import annotations

import argparse
import importlib.util
import os
from typing import Any

from syncless.cli.config import TABLES, ConfigError, Options, from_platform, reason_of, show
from syncless.cli.foreign import Foreign, options_of, translated
from syncless.cli.help import HelpAll, Parser, Version
from syncless.cli.sources import Chosen
from syncless.io.guardedfiles import is_privileged, only_roots
from syncless.patches import AREAS, OFF
from syncless.server.addresses import parse_bind
from syncless.server.options import OPTIONS, Option, value_of

Group = argparse._ArgumentGroup


def make_parser() -> Parser:
    parser = Parser(
        prog="syncless",
        argument_default=argparse.SUPPRESS,  # there are other sources of options, see config.py
        add_help=False,
        usage="syncless [serve] [option ...] application\n"
        "       syncless run program.py [argument ...]\n"
        "       syncless console [PID]\n"
        "       syncless status [ADDRESS]",
        description="Serves a WSGI or ASGI application, a web.py or CherryPy application, "
        "or a BaseHTTPRequestHandler class.",
        epilog=EPILOG,
    )
    for title, options in OPTIONS.items():
        group = parser.add_argument_group(title)
        for option in options:
            if option.word is not None:
                _add(group, option, option.word or f"--{option.name.replace('_', '-')}")
        if title in FURTHER:
            FURTHER[title](group)
    return parser


def _add(group: Group, option: Option, word: str) -> None:
    words = [option.short, word] if option.short else [word]
    if option.default is False:
        group.add_argument(*words, action="store_true", help=option.text)
        return

    def read(text: str) -> Any:
        try:
            return value_of(option, text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    more: dict[str, Any] = {"dest": option.name} if word.startswith("-") else {"nargs": "?"}
    if isinstance(option.default, (tuple, dict)):
        more["action"] = "append"
    if option.bare is not None:
        more |= {"nargs": "?", "const": option.bare}
    group.add_argument(
        *words, type=read, choices=option.choices, metavar=option.value or None, help=option.text, **more
    )


def _help(group: Group) -> None:
    group.add_argument(
        "--version", action=Version, nargs=0, help="show the version and the features, and exit"
    )
    group.add_argument("-h", "--help", action="help", help="show the common options and exit")
    group.add_argument("--help-all", action=HelpAll, nargs=0, help="show all options and limits, and exit")


PATCHED_ON_REQUEST = {
    "cpu": "run long computations (compression, hashing) in OS threads",
    "native": "make C libraries that are known to be safe wait cooperatively",
}
"""Area -> help."""


def _patch(group: Group) -> None:
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


FURTHER = {"application": _help, "patch of the standard library": _patch}
"""Heading -> what else it has."""
EPILOG = """environment:
  SYNCLESS_NAME=VALUE sets an option, SYNCLESS_LIMIT_NAME=VALUE a limit.
  PORT and WEB_CONCURRENCY apply if nothing else sets --bind and --workers.
  SYNCLESS_LOOP=epoll, kqueue, poll or select chooses how the loop waits.

example:
  syncless myproject.web:app --bind :8000 --workers 4 --limit head_seconds=10
"""


def parse(arguments: list[str]) -> Chosen:
    """Return all options, from the command line, the environment, the file or the defaults. If an option is
    wrong, print a message and raise SystemExit."""
    parser = make_parser()
    known = Options()
    try:
        given = vars(parser.parse_args(translated(arguments, parser.spelled)))
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
            _refuse_of_others(parser, path, argparse.Namespace(**{"user": None, "group": None, **given}))
            inner = make_parser()
            inner.before = f"{path}: "
            file, name = vars(inner.parse_args(translated(options_of(path)))), path
        else:
            file, name = known.from_file(path)
        layers = [
            (known.defaults(), "default"),
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
            if dest == "limits":
                sources |= {f"limit {limit}": source for limit, _ in value}
    options = Chosen(**{"check": False, "print_config": False, **values})
    options.sources, options.spelled = sources, parser.spelled
    _refuse_of_others(parser, name, options)
    if options.print_config:
        shown = {dest: value for dest, value in values.items() if dest in known.defaults()}
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
        options.workers = options.workers or 1
    for name in ("reload", "reload_certificates"):
        if vars(options)[name] and importlib.util.find_spec("watchfiles") is None:
            word = f"--{name.replace('_', '-')}"
            parser.error(f"{word} needs watchfiles: pip install 'syncless[reload]'")
    if options.reload_certificates and not (options.certfile or options.certificates):
        parser.error("--reload-certificates needs a certificate: --certfile FILE, or --certificate NAME=CERT")
    options.patch = options.patch and (dict(options.areas) or True)
    if options.factory and options.application and not options.application.endswith(")"):
        if ":" not in options.application:
            parser.error(f"--factory needs the function's name: {options.application}:create_app")
        options.application += "()"
    return options


def _refuse_of_others(parser: Parser, path: str, options: argparse.Namespace) -> None:
    """Refuse a file that other users can change if root reads it before switching to another user."""
    if (options.user or options.group) and path and is_privileged() and not only_roots(path):
        parser.error(
            f"{path}: root reads this file before switching to another user, so only root may be able to "
            "change it: chown root and chmod go-w the file, in a directory that only root may write to"
        )


def is_address(text: str) -> bool:
    try:
        parse_bind(text)
    except ValueError:
        return False
    return True
