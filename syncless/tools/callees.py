"""Names the C function that a Python frame calls at the moment, by its import path.

The interpreter does not tell it: a frame knows the place of the call, so its source is read, and the names in
it are looked up as the call did. No code of the program runs meanwhile, because it is looked at from another
thread: attributes are read from the dicts of modules and classes only, and local variables not at all.
"""

from __future__ import annotations

import _ast
import linecache
import sys
from collections.abc import Iterator
from itertools import islice
from types import FunctionType, MethodDescriptorType, ModuleType
from typing import Any

_ABSENT: Any = object()


def callee_of(frame: Any) -> str:
    """Return the import path of the C function that the frame calls, or "" if that is not known."""
    names = _called(frame)
    code = frame.f_code
    if not names or names[0] in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
        return ""
    owner, found = None, frame.f_globals.get(names[0], _ABSENT)
    for name in names[1:]:
        owner, found = found, _attribute(found, name)
    function = getattr(found, "__func__", found) if isinstance(found, (staticmethod, classmethod)) else found
    if function is _ABSENT or isinstance(function, (type, FunctionType)) or not callable(function):
        return ""
    paths = [_own_path(function)]
    if isinstance(owner, ModuleType):
        paths.append(f"{owner.__name__}.{names[-1]}")
    return next((path for path in paths if not path.startswith("builtins.") and _means(path, found)), "")


def _called(frame: Any) -> list[str]:
    """Return the names of a call such as `package.module.function(...)`, or none if it is another one.

    Fact: the module ast takes milliseconds to load. Danger: a thread that has just taken over blocks its own
    requests meanwhile, and a stall may be over before it is told. Decision: the compiler's own nodes.
    """
    text = _source(frame)
    try:
        tree: Any = compile(text.strip(), "", "exec", _ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError):
        return []
    if hasattr(frame.f_code, "co_positions"):
        calls = [node.value for node in tree.body if isinstance(node, _ast.Expr)]
    else:
        calls = [node for node in _nodes(tree) if isinstance(node, _ast.Call)]
    if len(calls) != 1 or not isinstance(calls[0], _ast.Call):
        return []  # an operator calls it, or the line may be at any of several calls
    names: list[str] = []
    part: _ast.expr = calls[0].func
    while isinstance(part, _ast.Attribute):
        names.insert(0, part.attr)
        part = part.value
    return [part.id, *names] if isinstance(part, _ast.Name) else []


def _nodes(node: _ast.AST) -> Iterator[_ast.AST]:
    yield node
    for name in node._fields:
        value = getattr(node, name, None)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, _ast.AST):
                yield from _nodes(part)


def _source(frame: Any) -> str:
    """Return the source of the call that the frame executes; before Python 3.11, its line."""
    code = frame.f_code

    def line(number: int) -> str:
        return linecache.getline(code.co_filename, number, frame.f_globals)

    if not hasattr(code, "co_positions"):
        return line(frame.f_lineno)
    first, last, start, end = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    if None in (first, last, start, end):
        return ""
    lines = [line(number).encode() for number in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return b"".join(lines).decode(errors="replace")


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute without running code."""
    if isinstance(owner, ModuleType):
        return vars(owner).get(name, _ABSENT)
    kind = owner if isinstance(owner, type) else type(owner)
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), _ABSENT)


def _own_path(function: Any) -> str:
    """Return the path that the function says of itself."""
    owner = getattr(function, "__objclass__", None)  # of a method
    if isinstance(function, MethodDescriptorType) and owner is not None:
        return f"{owner.__module__}.{owner.__qualname__}.{function.__name__}"
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', None)}"


def _means(path: str, function: Any) -> bool:
    """Return whether the path leads to the function, or to its replacement."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        found = sys.modules.get(".".join(parts[:length]), _ABSENT)
        if found is not _ABSENT:
            for name in parts[length:]:
                found = _attribute(found, name)
            return found is function or getattr(found, "__wrapped__", _ABSENT) is function
    return False
