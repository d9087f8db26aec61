"""Writes the lists of files in docs/files.md: each file with the first sentence that it says of itself.

``python -m scripts.docs.design`` does it; a test fails where the page says something else. The order of the
rows, and which list a file is in, are decided by hand: they are the order in which to read. A new file is put
behind the last one of its folder, a part of a module (.pxi) behind its module.
"""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent.parent
PACKAGE = ROOT / "syncless"
PAGE = ROOT / "docs" / "files.md"
ROW = re.compile(r"^\| `([\w./-]+\.\w+)` \| .* \|\n", re.MULTILINE)
TEXT = re.compile(r'\s*(?:# cython:.*\s+)?(?:#!.*\s+)?(?:"""|/\*)(.*?)(?:"""|\*/|\n\s*\n)', re.DOTALL)
"""The first paragraph of a docstring, or of the comment with which a file of C begins."""


def files_with_a_concept() -> Iterator[str]:
    """All sources but those that go with a file of the same name: a .pxd or .pyi, the header of a .c file.
    An __init__.py that has only a docstring has no concept of its own."""
    for path in PACKAGE.rglob("*"):
        together = {".pxd": (".pyx", ".py"), ".h": (".c",)}.get(path.suffix, ())
        if path.suffix not in (".py", ".pyx", ".pxd", ".pxi", ".c", ".h"):
            continue
        if any(path.with_suffix(suffix).exists() for suffix in together):
            continue
        if path.name == "__init__.py" and len(ast.parse(path.read_text()).body) < 2:
            continue
        yield str(path.relative_to(PACKAGE))


def concept_of(file: str) -> str:
    """The first sentence of a source, as the cell of a table."""
    found = TEXT.match((PACKAGE / file).read_text())
    if found is None:
        raise SystemExit(f"syncless/{file} does not begin with a docstring or a comment that says what it is")
    paragraph = " ".join(found[1].split())
    sentence = re.split(r"(?<=\.) ", paragraph)[0].rstrip(".:")
    return sentence.replace("``", "`").replace("|", "\\|").replace("*", "\\*")


def listed(page: str) -> list[str]:
    return ROW.findall(page)


def place_of(file: str, page: str) -> int:
    """Where the row of a new file goes."""
    folder, _, _ = file.rpartition("/")
    rows = {found[1]: found.end() for found in ROW.finditer(page)}
    beside = [each for each in rows if each.rpartition("/")[0] == folder]
    module = f"{folder}.pyx"
    if not beside and module in rows:
        beside = [module]
    if not beside:
        raise SystemExit(f"docs/files.md has no list of files in {folder}/: begin one with {file}")
    return rows[beside[-1]]


def row_as_it_should_be(row: re.Match[str]) -> str:
    return f"| `{row[1]}` | {concept_of(row[1])} |\n" if (PACKAGE / row[1]).exists() else ""


def written(page: str) -> str:
    """The page with its lists as they should be."""
    for file in sorted(set(files_with_a_concept()) - set(listed(page))):
        at = place_of(file, page)
        page = f"{page[:at]}| `{file}` |  |\n{page[at:]}"
    return ROW.sub(row_as_it_should_be, page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
