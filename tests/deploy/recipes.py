"""The files in deploy/, and the commands in them."""

from __future__ import annotations

import pathlib
import re
import shlex

DEPLOY = pathlib.Path(__file__).parent.parent.parent / "deploy"


def text(name: str) -> str:
    return (DEPLOY / name).read_text()


def changed(name: str, changes: dict[str, str]) -> str:
    """The text of a recipe with the addresses of a test in it."""
    found = text(name)
    for old, new in changes.items():
        assert found.count(old) == 1, f"{name}: {old!r} stands there {found.count(old)} times"
        found = found.replace(old, new)
    return found


def command_in_comment(name: str) -> list[str]:
    """The arguments of the server that a recipe names in a comment."""
    line = re.search(r"^#  *(syncless (?:.*\\\n# +)*.*)$", text(name), re.MULTILINE)[1]
    return shlex.split(re.sub(r"\\\n#", " ", line))[1:]


def without(arguments: list[str], *options: str) -> list[str]:
    """The options of a command without the application and some of them, each with its value."""
    rest = arguments[1:]
    for option in options:
        at = rest.index(option)
        del rest[at : at + 2]
    return rest
