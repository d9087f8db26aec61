"""The options that say what is served."""

from __future__ import annotations

import argparse

import syncless
from syncless.cli.argumenttypes import mount, native
from syncless.cli.help import HelpAll
from syncless.wsgi.kinds import INTERFACES, LIFESPANS


def about_application(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "application",
        nargs="?",
        help="module:attribute or path/to/file.py:attribute, for example myproject.web:app; the attribute "
        "may be left out if it is application or app, and may be a call of a factory: 'web:create_app()'",
    )
    group.add_argument(
        "--factory", action="store_true", help="the attribute is a function that returns the application"
    )
    group.add_argument(
        "--interface",
        type=lambda name: "asgi" if name == "asgi3" else name,  # as uvicorn has it
        choices=INTERFACES,
        help="what the application speaks, if its signature does not tell (default auto)",
    )
    group.add_argument(
        "--mount",
        dest="mounts",
        type=mount,
        action="append",
        metavar="/PATH=APP",
        help="another application, of either kind, for the paths below this one; may be repeated",
    )
    group.add_argument(
        "--native",
        type=native,
        action="append",
        metavar="ROUTE=HANDLER",
        help="a native handler, module:handler or library.so:function, that answers a route such as /path or "
        "'GET /users/{id}' without the interpreter's lock; may be repeated",
    )
    group.add_argument(
        "--native-threads",
        type=int,
        metavar="N",
        help="threads of native handlers (default: cores)",
    )
    group.add_argument(
        "--chdir",
        metavar="DIR",
        help="change to the directory before importing the application; a reload follows symbolic links anew",
    )
    group.add_argument(
        "--app-dir",
        action="append",
        metavar="DIR",
        help="look for modules in this directory, too; may be repeated",
    )
    group.add_argument(
        "--env-file",
        metavar="FILE",
        help="set the variables of this file that are not set, before importing the application (needs "
        "syncless[env])",
    )
    group.add_argument(
        "--root-path",
        metavar="/PATH",
        help="path of the application for its clients, which a proxy takes away: SCRIPT_NAME, root_path",
    )
    group.add_argument(
        "--lifespan",
        choices=LIFESPANS,
        help="the lifespan of an ASGI application: auto (default); on: it must have one; off: leave it out",
    )
    group.add_argument(
        "--check", action="store_true", help="import the application, check the options, and exit"
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help="read options from this TOML file, or a gunicorn.conf.py "
        "(default: syncless.toml, or [tool.syncless] in pyproject.toml)",
    )
    group.add_argument(
        "--print-config", action="store_true", help="print the options and where each comes from, and exit"
    )
    group.add_argument("--version", action="version", version=f"syncless {syncless.__version__}")
    group.add_argument("-h", "--help", action="help", help="show the common options and exit")
    group.add_argument("--help-all", action=HelpAll, nargs=0, help="show all options and limits, and exit")
