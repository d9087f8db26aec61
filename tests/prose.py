"""Finds words in prose that have a better one: ``python -m tests.prose --paths README.md syncless/cli``.

It reads what users read: Markdown without code, the strings of the package (docstrings, help, errors, log
lines), and the texts and comments of ``deploy/`` and ``examples/``. Names and code are not prose, nor are the
comments of the package.

``WORDS`` is the list: a pattern, and what to write. A space in a pattern is any gap inside a paragraph. A
word that is right where it stands goes into ``ALLOWED``, with the reason.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent
READ = (
    *("*.md", "docs/**/*.md", "syncless/**/*.py*", "syncless/**/*.pxi"),
    *("pytest_syncless.py", "deploy/**/*", "examples/**/*"),
)
NOT_READ = (".so", ".pyc", ".pxd", ".json", ".pem", ".png", ".svg")

WHICH = (
    r"\b(?:an?|the|its|their|our|your|whose|each|every|any|no|all|some|one|two|several|this|these|whole"
    r"|of|for|with|without)"
)
THING = (
    r"\b(?:clients?|peers?|servers?|kernel|librar(?:y|ies)|RFCs?|RFC \d+|protocols?|systems?|loops?|modules?"
    r"|framework|proxy|application)"
)
IS = r"(?:is|are|was|were|has|have|do|does|did|can|will)"
TO = r"(?! (?:the|an?|to|with|all|each|every|requests|it|them|by|X+)\b)"
"""Not before what a verb has: "no server answers the client"."""
WORDS = {
    r"\b(?:hold|holds|held|holding)(?: (?:the|a|all|its|every) [\w-]+)? up\b": "block",
    r"\b(?:give|gives|gave|given|giving) way\b": "yield",
    r"\bkept connections?\b": "keep-alive connection",
    r"\bbelie(?:ve|ves|ved|ving)\b": "trust",
    rf"{WHICH} (?:answers?|[\w-]+ answer)\b{TO}|\banswers (?=(?:are|were|from|which)\b)": "response",
    r"\b(?:cure|cures|cured|mend|mends|mended|mending)\b": "fix",
    r"\bgreetings?\b": "handshake",
    r"\b(?:send|sends|sent|sending)(?: (?:it|them|clients))? away\b": "disconnect",
    r"\bbut for\b": "except for, without",
    rf"\b(?:and|which|nor) so {IS}\b|\bso {IS} (?:not|th[aeo]\w+)\b|\bwhich so\b": "name the subject first",
    rf"{THING} (?:want|wants|wanted|like|likes|wish|wishes)\b|\bRFC \d+ has it\b": "require, specify",
    r"\bwith grace\b": "gracefully",
    r"\b(?:each|every|per|second|next|last|another) try\b|\btr(?:ies|ied) again\b": "attempt, retry",
    r"\bthe insides of\b": "internals",
    r"\bin the order in which they (?:were put|came)\b": "in FIFO order",
    r"\bbeyond what is allowed\b": "over the limit",
    r"\bhow manieth\b": "number of",
    r"(?:[.;:] |\"\"\")(?-i:What|Who|Whoever) [^?.;:|\n]*(?:\n[^?.;:|\n]+)*[.;]": "name it with a noun",
}
"""The words -> what to write."""
OF_DOCSTRINGS = {
    r"[.;] (?-i:[A-Z]\w*(?:Error|Exception|Exit)|gaierror)(?:,|\.| if| when| after| for)": "Raise ...",
}
"""The same, in the package alone."""
ALLOWED = {
    ("syncless/io/dns/", "response"): "DNS calls the records of a response its answer",
    ("docs/design.md", "response"): "the same",
    ("docs/benchmarks/", "response"): "reasons as they were recorded",
    ("docs/glossary.md", "handshake"): "it explains the word, which is in the name of a limit",
    ("docs/howto/operating.md", "handshake"): "the name of a phase in the metrics",
    ("syncless/http/connection.pyx", "handshake"): "GREETING is the name of a phase",
}
"""(path begins with this, the better word) -> why the word is right there."""
GAP = r"(?:[^\S\n]+|[^\S\n]*\n[^\S\n]*)"
FENCE = re.compile(r"^([ >]*)(```|~~~).*?^\1\2[`~]*$", re.M | re.S)
NO_PROSE = re.compile(r"<!--.*?-->|<(?:style|script|pre|code)\b.*?</|^#+ .*?$|^    .*?$", re.M | re.S)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)|(?<=\])\([^)\s]*\)", re.S)
LITERAL = re.compile(
    r"(?P<comment>\#[^\n]*)"
    r"|(?P<prefix>\b[rbufRBUF]{1,2})?"
    r"(?P<string>\"\"\".*?(?<!\\)\"\"\"|'''.*?(?<!\\)'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')",
    re.S,
)
FIELD = re.compile(r"\{[^{}]*\}")
TRIPLE = '"""'


def blank(text: str, filler: str = "\0") -> str:
    """The same length and lines, without words."""
    return re.sub(r"[^\n]", filler, text)


def as_name(found: re.Match[str]) -> str:
    """Code in a sentence stands for one word."""
    return blank(found[0], "X")


def markdown(text: str) -> str:
    """The text of a page, with all that is no prose blanked in place."""
    text = FENCE.sub(lambda found: blank(found[0]), text)
    text = NO_PROSE.sub(lambda found: blank(found[0]), text)
    return CODE.sub(as_name, text)


def strings(text: str, comments: bool = False) -> str:
    """The strings of a Python or Cython file, with all the rest blanked; strings side by side are one."""
    out, end, last = [], 0, ""
    for found in LITERAL.finditer(text):
        gap, prefix, string = text[end : found.start()], (found["prefix"] or "").lower(), found["string"]
        joined = not gap.strip() and bool(last)
        out.append(gap if joined else blank(gap))
        end = found.end()
        if string is None:
            last = "#" if comments else last if joined else ""
            out.append(found[0].replace("#", " ") if comments else re.sub(r"[^\n]", " ", found[0]))
        elif "b" in prefix or " " not in string.strip("\"' ") or ("r" in prefix and string[:3] != TRIPLE):
            last = ""
            out.append(blank(found[0], "X"))
        else:
            last = '"'
            string = CODE.sub(as_name, FIELD.sub(as_name, string) if "f" in prefix else string)
            inner = string if string.startswith(TRIPLE) else f" {string[1:-1]} "
            out.append(" " * len(prefix) + inner.replace("\\n", "  "))
    return "".join([*out, blank(text[end:])])


def prose(path: pathlib.Path) -> str:
    text = path.read_text(errors="replace")
    place = path.relative_to(ROOT).parts[0]
    if path.suffix == ".md":
        return markdown(text)
    if path.suffix in (".py", ".pyx", ".pyi", ".pxi"):
        return strings(text, comments=place == "examples")
    return re.sub(r"^[^#\n]*#|^[^#\n]+$", lambda found: blank(found[0]), text, flags=re.M)  # comments


def name_of(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix()


def findings(paths: list[pathlib.Path]) -> Iterator[str]:
    """What stands there, line by line, with the better word."""
    for name, text in ((name_of(path), prose(path)) for path in paths):
        words = {**WORDS, **(OF_DOCSTRINGS if name.startswith("syncless/") else {})}
        for pattern, better in words.items():
            if any(name.startswith(start) and better == allowed for start, allowed in ALLOWED):
                continue
            for found in re.finditer(pattern.replace(" ", GAP), text, re.I):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{name}:{line}: {' '.join(found[0].split())!r}: {better}"


def files(given: list[pathlib.Path] | None = None) -> list[pathlib.Path]:
    """All that is read; with paths, what lies in them."""
    found = sorted({path for pattern in READ for path in ROOT.glob(pattern) if path.is_file()})
    texts = [path for path in found if path.suffix not in NOT_READ]
    if given is None:
        return texts
    return [path for path in texts if any(path.is_relative_to(each.resolve()) for each in given)]


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.prose", description=(__doc__ or "").partition("\n")[0]
    )
    options.add_argument("--paths", nargs="+", type=pathlib.Path, help="files or folders (default: all)")
    found = list(findings(files(options.parse_args().paths)))
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
