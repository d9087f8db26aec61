"""The same question for files of C: which result of a function that may return NULL is used before a look.

By lines, without a parser. The first line that mentions a result again has to look at it. A call whose result
is not stored has to be a condition itself.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

MAY_BE_NULL = (
    r"(?:malloc|calloc|realloc|strdup|strndup|memchr|memrchr|memmem|strchr|strrchr|strstr|getenv|fopen|fdopen"
    r"|dlsym|dlopen|opendir|readdir|PyDict_GetItem\w*|PyUnicode_AsUTF8\w*|PyList_GetItem|PyObject_Malloc"
    r"|PyMem_\w*(?:Malloc|Calloc|Realloc))"
)
PLACE = r"[A-Za-z_][\w.]*(?:(?:->|\[)[\w.\]]+)*"
STORED = re.compile(rf"(?P<place>{PLACE})\s*=\s*(?:[^;=(){{}}]*\?\s*)?(?:\([^()]*\)\s*)?{MAY_BE_NULL}\(")
CALLED = re.compile(rf"(?<![\w.>]){MAY_BE_NULL}\(")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
AROUND = 400
"""Characters behind a call in which its result is looked at, or used."""


def without_comments(text: str) -> str:
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def end_of_call(text: str, at: int) -> int:
    """The place behind the bracket that closes the one that opens before `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def is_condition(before: str, after: str) -> bool:
    """Whether the call, or the assignment in brackets, is what an `if`, a `!`, an `&&` or a comparison asks.
    One that is returned is for the caller to look at."""
    return bool(
        re.match(r"\s*(?:==|!=|&&|\|\||\?)", after)
        or re.search(r"(?:!\s*\(?|&&\s*\(?|\|\|\s*\(?|\bif \(|\bwhile \(|\breturn )$", before)
    )


def looks(text: str, place: str) -> bool:
    """Whether the first mention is a look."""
    name = re.escape(place)
    found = re.search(rf"(?<![\w.>]){name}(?![\w(])", text)
    if found is None:
        return True
    before, after = text[: found.start()], text[found.end() :]
    return bool(
        re.search(r"(?:!|&&\s*|\|\|\s*|\bif \(|\bwhile \(|NULL [!=]= |\breturn )$", before)
        and not re.match(r"\s*(?:->|\[)", after)
    ) or bool(re.match(r"\s*(?:==|!=|&&|\|\||\?)", after))


def unlooked(text: str) -> Iterator[tuple[int, str]]:
    """Line and words of each result that is not looked at."""
    text = without_comments(text)
    stored = {}
    for found in STORED.finditer(text):
        stored[text.index("(", found.end() - 1)] = found
    for call in CALLED.finditer(text):
        opened = call.end() - 1
        end = end_of_call(text, opened + 1)
        line = text.count("\n", 0, call.start()) + 1
        function = call[0][:-1]
        assignment = stored.get(opened)
        start = assignment.start() if assignment else call.start()
        if is_condition(text[max(0, start - 20) : start], text[end:]):
            continue
        if assignment is None or re.match(r"\s*(?:[-+\[]|->)", text[end:]):
            yield line, f"the result of {function}() may be NULL"
        elif re.match(r"\s*\)\s*(?:==|!=|&&|\|\||\?)?", text[end:]) and text[start - 1] == "(":
            continue  # the condition of an `if` or a `while`
        elif not looks(text[end : end + AROUND], assignment["place"]):
            yield line, f"{assignment['place']} may be NULL: {function}() was not looked at"


def check(folder: pathlib.Path, root: pathlib.Path) -> Iterator[tuple[str, int, str]]:
    for path in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")]):
        for line, words in unlooked(path.read_text()):
            yield str(path.relative_to(root)), line, words
