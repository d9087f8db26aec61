"""Copies docstrings of public native names into their stubs, where editors and the reference find them.

``python -m scripts.docs.stubs`` writes them; a test fails where a stub says something else than its module.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent.parent
MODULES = ("syncless", "syncless.asyncio", "syncless.stackless", "syncless.wsgi")
Node = ast.ClassDef | ast.FunctionDef


def native_names() -> Iterator[tuple[pathlib.Path, str, Any]]:
    """(stub, name, thing) of each public class and function that is native, and of its public bases."""
    seen = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            for each in [thing, *getattr(thing, "__mro__", ())]:
                owner = str(getattr(each, "__module__", ""))
                stub = ROOT / (owner.replace(".", "/") + ".pyi")
                if isinstance(getattr(each, "__name__", None), str) and stub.exists() and each not in seen:
                    seen.add(each)
                    yield stub, each.__name__, each


def members(node: Node, thing: Any) -> Iterator[tuple[Node, Any]]:
    """A class or function of a stub and its methods, each with the thing that it describes."""
    yield node, thing
    if isinstance(node, ast.ClassDef):
        for item in node.body:
            public = isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
            if public and not any(ast.unparse(each).endswith(".setter") for each in item.decorator_list):
                found = vars(thing)[item.name]
                yield item, getattr(found, "__func__", found)


def text_of(thing: Any) -> str | None:
    """Its own docstring, without those of its bases."""
    text = getattr(thing, "__doc__", None)
    # a module built before setup.py turned it off begins with its signature
    text = re.sub(r"\A[\w.]+\(.*\)(?: -> .*)?\n\n", "", text or "")
    return inspect.cleandoc(text) or None


def differences() -> Iterator[tuple[pathlib.Path, Node, str | None]]:
    """(stub, node, text) of each docstring that is not in its stub as it should be."""
    for stub, name, thing in native_names():
        tree = ast.parse(stub.read_text())
        for top in tree.body:
            if isinstance(top, Node) and top.name == name:
                for node, each in members(top, thing):
                    if ast.get_docstring(node) != text_of(each):
                        yield stub, node, text_of(each)


def put(lines: list[str], node: Node, text: str | None) -> None:
    """Replaces the docstring of a node in the lines of its stub."""
    first = node.body[0]
    last = first.end_lineno or first.lineno
    if ast.get_docstring(node) is not None:
        del lines[first.lineno - 1 : last]
        at = first.lineno - 1
        if len(node.body) == 1 and text is None:
            lines.insert(at, " " * first.col_offset + "...")
    elif isinstance(first, ast.Expr) and len(node.body) == 1:  # "...", on the line of the colon or below
        line = lines[first.lineno - 1]
        head = line[: first.col_offset].rstrip() + line[first.end_col_offset :]
        lines[first.lineno - 1 : last] = [head] if head else []
        at = first.lineno if head else first.lineno - 1
    else:
        at = first.lineno - 1 - len(getattr(first, "decorator_list", ()))
    if text is not None:
        quoted = text.replace("\\", "\\\\")
        quoted = f'"""{quoted}"""' if "\n" not in quoted or quoted.count("\n") < 3 else f'"""{quoted}\n"""'
        lines[at:at] = textwrap.indent(quoted, " " * (node.col_offset + 4)).splitlines()


def place_of(change: tuple[Node, str | None]) -> tuple[int, bool]:
    """Where its docstring goes; a class begins before a function that is its first member."""
    node, _ = change
    return node.body[0].lineno, isinstance(node, ast.FunctionDef)


def write() -> None:
    """Writes all docstrings, the last of a file first, so that the lines before it stay where they are."""
    found: dict[pathlib.Path, list[tuple[Node, str | None]]] = {}
    for stub, node, text in differences():
        found.setdefault(stub, []).append((node, text))
    for stub, changes in found.items():
        lines = stub.read_text().splitlines()
        for node, text in sorted(changes, key=place_of, reverse=True):
            put(lines, node, text)
        stub.write_text("\n".join(lines) + "\n")
        print(stub.relative_to(ROOT))


if __name__ == "__main__":
    write()
