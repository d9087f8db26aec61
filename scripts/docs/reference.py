"""Pages of the reference that are written from the code, so that they are never out of date.

Each function returns a page in Markdown: the options of the command, the limits, the environment variables,
the atoms of the access log.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterable

from syncless.cli.arguments import make_parser
from syncless.cli.config import VARIABLES
from syncless.cli.help import explained, measure
from syncless.http.limits import Limits
from syncless.http.log.accesslog import ATOMS, FORMATS


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cell(text) for text in line)} |" for line in lines)


def spelled(action: argparse.Action) -> str:
    """An option as --help spells it: `-b`, `--bind ADDRESS`."""
    if not action.option_strings:
        return f"`{action.dest}`"
    value = ""
    if action.nargs != 0:
        value = f" {action.metavar or action.dest.upper()}"
        value = f" [{value.strip()}]" if action.nargs == "?" else value
    return ", ".join(f"`{name}{value}`" for name in action.option_strings)


def options() -> str:
    """Every option of the serving command."""
    parts = [
        "# Options of the command",
        "`syncless [serve] [option ...] application`.",
        "Options may also come from a file: see [configuration](../howto/server.md#configuration).",
    ]
    for group in make_parser()._action_groups:
        rows = [
            (spelled(action), (action.help or "").replace("%%", "%"))
            for action in group._group_actions
            if action.help != argparse.SUPPRESS and (action.option_strings or [""])[0][-1:] != ")"
        ]
        if rows:
            parts += [f"## {group.title[0].upper()}{group.title[1:]}", table(("option", ""), rows)]
    return "\n\n".join(parts) + "\n"


def limits() -> str:
    """Every limit with its default."""
    texts = explained()
    rows = [
        (f"`{field.name}`", measure(field.name, field.default), texts[field.name].replace("%%", "%"))
        for field in dataclasses.fields(Limits)
    ]
    return "\n\n".join(
        [
            "# All limits",
            "Set one by `--limit NAME=VALUE`, by `[limits]` in `syncless.toml`, or as argument of `serve`.",
            "[Limits, deadlines, overload](limits.md) explains how they work together.",
            table(("limit", "default", ""), rows),
        ]
    )


def variables() -> str:
    """Every environment variable."""
    rows = [(f"`{name}`", text) for name, text in VARIABLES.items()]
    return "\n\n".join(["# Environment variables", table(("variable", ""), rows)])


def atoms() -> str:
    """Every atom of the access log, and the formats that have a name."""
    parts = [
        "# Atoms of the access log",
        "A format is a string with these atoms, those of Apache's mod_log_config.",
        "[Logs](../howto/logging.md) shows how to choose one.",
        table(("atom", ""), [(f"`{name}`", atom.text) for name, atom in ATOMS.items()]),
        "## Formats with a name",
    ]
    for name, format in FORMATS.items():
        lines = [format] if isinstance(format, str) else [f"{key}: {atom}" for key, atom in format.items()]
        parts.append(f"`{name}`\n\n```text\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(parts) + "\n"


GENERATED: dict[str, Callable[[], str]] = {
    "reference/command-line.md": options,
    "reference/all-limits.md": limits,
    "reference/environment.md": variables,
    "reference/log-atoms.md": atoms,
}

IN_SOURCES = {
    "syncless/cli/arguments.py": "reference/command-line.md",
    "syncless/http/limits.py": "reference/all-limits.md",
    "syncless/cli/config.py": "reference/environment.md",
    "syncless/http/log/accesslog.py": "reference/log-atoms.md",
}
"""Source -> the page that is written from it. A page that links the source leads readers of the repository
there, and readers of the site to the page."""
