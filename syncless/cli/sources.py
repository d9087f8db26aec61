"""Rewords errors of `serve` and `Server` for users of the command: an argument becomes the option, the
variable, or the key of a file that has set it.
"""

from __future__ import annotations

import argparse
import re

from syncless.server.options import ROWS, Option

PLAIN = ("certfile", "keyfile", "certificates", "ciphers")
"""Arguments whose names are no words of English, besides those with an underscore."""
OF_CALLERS = {
    "key_password": "key_password_file",
    "defer_accept": "no_defer_accept",
    "shared_metrics": "no_shared_metrics",
}
"""Argument that has another name in the command."""


class Chosen(argparse.Namespace):
    """The options and their sources; `vars` does not include the sources."""

    __slots__ = ("sources", "spelled")
    sources: dict[str, str]
    """Option, or "limit NAME" -> its source."""
    spelled: dict[str, str]
    """Option of ours -> the one of another server that has been written for it."""


def as_written(message: str, options: Chosen) -> str:
    """Return the message with arguments and limits named as the user has written them."""
    for option in ROWS:
        name = OF_CALLERS.get(option.name, option.name)
        known = next((row for row in ROWS if row.name == name), option)
        if known.word is None:
            continue
        source = written(known, options)
        message = message.replace(f"`{option.name}`", source)
        if "_" in option.name or option.name in PLAIN:
            pattern = rf"(?<![\w.-]){option.name}(?![\w=(.])"
        else:
            pattern = rf"^{option.name}(?=:| (?:must|is|needs?|cannot)\b)"
        message = re.sub(pattern, source.replace("\\", r"\\"), message)
    return re.sub(
        r"\blimit (\w+_\w+|\w+)(?= (?:must|can)\b)", lambda found: _limit(found[1], options), message
    )


def written(option: Option, options: Chosen) -> str:
    """Return the option as it is written in its source."""
    source = options.sources.get(option.name, "command line")
    word = option.word or f"--{option.name.replace('_', '-')}"
    return _by_source(source, option.name.replace("_", "-"), options.spelled.get(word, word))


def _limit(name: str, options: Chosen) -> str:
    source = options.sources.get(f"limit {name}", "command line")
    word = options.spelled.get(f"--limit {name}", f"--limit {name}")
    return _by_source(source, f"limit {name}", word)


def _by_source(source: str, key: str, word: str) -> str:
    if source == "environment":
        return f"SYNCLESS_{key.upper().replace('-', '_').replace(' ', '_')}"
    if source.startswith("PORT"):
        return source
    return word if source in ("command line", "default") else f"{source}: {key}"
