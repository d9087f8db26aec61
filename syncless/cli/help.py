"""The help: ``syncless --help`` shows the common options, ``syncless --help-all`` all options in groups and
each limit with its default. Help has colours on a terminal.

The texts come from the parser's groups (arguments.py) and the docstrings of the fields of Limits. The colours
that argparse has since Python 3.14 are off, so that help looks the same everywhere.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import textwrap
from typing import IO, Any, NoReturn

from syncless.cli.foreign import ACCEPTED, TOGETHER
from syncless.cli.peers import answer
from syncless.http.features import features
from syncless.http.limits import Limits, defaults
from syncless.server.options import closest

BOLD, GREEN, PLAIN = "\033[1m", "\033[32m", "\033[0m"
COLUMN = 30
"""Where the sentences begin."""
WIDEST = 110
COMMON = (
    *("--bind", "--workers", "--reload", "--config", "--certfile", "--keyfile", "--static", "--trusted"),
    *("--access-log", "--status", "--user", "--no-patch", "--limit", "--version", "--help", "--help-all"),
)
"""Options that ``--help`` shows."""


WORDS = {"expected one argument": "needs a value"}
"""A reason of argparse -> the end of our sentence."""


def is_written(name: str, word: str) -> bool:
    """Return whether a word of the command line is that option."""
    return word.partition("=")[0] == name or (len(name) == 2 and name[0] == "-" and word.startswith(name))


class Parser(argparse.ArgumentParser):
    """A parser whose help has colours on a terminal."""

    def __init__(self, **options: Any):
        super().__init__(**options, formatter_class=Formatter)
        self.color = False
        self.typed: list[str] = []
        """The arguments."""
        self.before = ""
        """What stands before an error: the file from which the arguments are."""
        self.spelled: dict[str, str] = {}
        """An option of ours, or ``--limit NAME`` -> what the user has written for it."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        self.typed = [str(word) for word in args or ()]
        found, extra = self.parse_known_args(args, namespace)
        if extra:
            self._refuse(extra)
        return found

    def _refuse(self, extra: list[str]) -> NoReturn:
        name = extra[0].partition("=")[0]
        if not name.startswith("-"):
            self.error(f"unexpected argument {name!r}: only one application can be named")
        instead = answer(name)
        if instead:
            self.error(f"there is no {name}; {instead}")
        limit = name.strip("-").replace("-", "_")
        if limit in defaults():
            self.error(f"there is no option {name}; write --limit {limit}=N")
        near = closest(name, [*self._option_string_actions, *ACCEPTED, *TOGETHER])
        self.error(
            f"there is no option {name}; {f'did you mean {near}?' if near else 'see syncless --help-all'}"
        )

    def error(self, message: str) -> NoReturn:
        """Print a sentence that begins with the option as the user wrote it, without the usage, and exit."""
        found = re.match("argument ([^:]+): (.*)", message, re.DOTALL)
        if found:
            message = self._told(found[1].split("/"), WORDS.get(found[2], found[2]))
        self.exit(2, f"syncless: {self.before}{message}\n")

    def _told(self, names: list[str], why: str) -> str:
        name = next((name for name in names if any(is_written(name, word) for word in self.typed)), names[-1])
        if why.startswith("ignored explicit argument"):  # it takes none
            return f"{name} takes no value"
        limit, _, rest = why.partition(": ")
        if "--limit" in names and limit in defaults():
            name, why = f"{name} {limit}", rest
            return f"{self.spelled.get(f'--limit {limit}', name)}: {why}"
        name = self.spelled.get(name, name)
        return f"{name} {why}" if why in WORDS.values() else f"{name}: {why}"

    def print_help(self, file: Any = None) -> None:
        self.show(self.format_common(), sys.stdout if file is None else file)

    def format_common(self) -> str:
        """Return the help with the options of COMMON."""
        known = self._option_string_actions
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        formatter.start_section("common options")
        formatter.add_arguments([*self._get_positional_actions(), *(known[name] for name in COMMON)])
        formatter.end_section()
        formatter.add_text(self.epilog and self.epilog[self.epilog.index("example:") :])
        return formatter.format_help()

    def show(self, text: str, stream: IO[str]) -> None:
        self._print_message(painted(text) if is_colourful(stream) else text, stream)


class HelpAll(argparse.Action):
    """The action of ``--help-all``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        assert isinstance(parser, Parser)
        group = next(each for each in parser._action_groups if each.title == "limits")
        group._group_actions += limit_rows()
        parser.show(parser.format_help(), sys.stdout)
        parser.exit()


class Version(argparse.Action):
    """The action of ``--version``."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(features())
        parser.exit()


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Formats options as ``-b, --bind ADDRESS`` instead of ``-b ADDRESS, --bind ADDRESS``."""

    def __init__(self, prog: str, **options: Any):
        width = min(WIDEST, argparse.HelpFormatter(prog)._width)
        super().__init__(prog, max_help_position=COLUMN, width=width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap a text of one line, and leave other texts as they are."""
        return super()._fill_text(text, width, indent) if "\n" in text else textwrap.fill(text, width)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def is_colourful(stream: IO[str]) -> bool:
    """Return whether the stream accepts escape sequences; see https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """Return the help with its headings in bold and its options in green."""
    text = re.sub(r"^(\w[^:\n]*:)", rf"{BOLD}\1{PLAIN}", text, flags=re.MULTILINE)
    return re.sub(r"^  ((?:-\w, )?--[\w-]+|\w+(?= \())", rf"  {GREEN}\1{PLAIN}", text, flags=re.MULTILINE)


def limit_rows() -> list[argparse.Action]:
    """Return a row of the help for each limit; the rows are not options."""
    texts = explained()
    return [
        argparse.Action(
            [f"{name} ({measure(name, default)})"],
            name,
            nargs=0,
            help=texts.get(name),
        )
        for name, default in defaults().items()
    ]


def measure(name: str, value: Any) -> str:
    """Return a limit's default with its unit: 1 GiB, 30 s, 240 B/s, 100."""
    if value and name.endswith("_seconds"):
        return f"{value:g} s"
    if not value or not name.endswith(("_bytes", "_rate", "_line")):
        return f"{value:g}" if isinstance(value, float) else str(value)
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value % (1 << power) == 0:
            return f"{value >> power} {unit}"
    return f"{value} B/s" if name.endswith("_rate") else f"{value} B"


def explained() -> dict[str, str]:
    """Return the docstrings of the fields of Limits; the result is empty if the source is not installed."""
    import ast  # it and inspect take long to load
    import inspect

    try:
        tree = ast.parse(inspect.getsource(Limits))
    except OSError:
        return {}
    texts: dict[str, str] = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            texts[field.target.id] = " ".join(ast.literal_eval(text.value).split()).replace("%", "%%")
    return texts
