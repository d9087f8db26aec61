"""Cython's typed trees: what is an expression, and what is known of a function at a place in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from Cython.Compiler import ExprNodes

from tests.switches.tables import BUILTINS, SAFE_TYPES


def bare(node: Any) -> Any:
    """The expression below conversions."""
    while True:
        if isinstance(node, ExprNodes.TypecastNode):
            node = node.operand
        elif isinstance(node, ExprNodes.CoercionNode | ExprNodes.CloneNode | ExprNodes.ProxyNode):
            node = node.arg
        else:
            return node


def owner_of(type_: Any, attribute: str) -> str:
    """The class or struct that declares the attribute."""
    if type_.is_ptr:
        type_ = type_.base_type
    if type_.is_extension_type:
        while (
            type_.base_type is not None
            and type_.base_type.scope is not None
            and (type_.base_type.scope.lookup_here(attribute))
        ):
            type_ = type_.base_type
        return str(type_.scope.qualified_name)
    return str(getattr(type_, "name", type_))


def is_pointer(type_: Any) -> bool:
    return bool(type_.is_ptr and not type_.base_type.is_cfunction)


def is_object(node: Any) -> bool:
    return bool(node.type is not None and node.type.is_pyobject)


def is_safe(type_: Any) -> bool:
    return bool(not type_.is_pyobject or (type_.is_builtin_type and type_.name in SAFE_TYPES))


def short(name: str) -> str:
    return ".".join(name.split(".")[-2:])


def relative(path: str) -> str:
    place = path.find("syncless/")
    return path[place:] if place >= 0 else path


def walk(node: Any) -> Iterator[Any]:
    if node is None:
        return
    if isinstance(node, list):
        for each in node:
            yield from walk(each)
        return
    yield node
    if isinstance(node, ExprNodes.CloneNode):
        return
    names = list(node.child_attrs or ())
    for name in names:
        yield from walk(getattr(node, name, None))


def is_none(node: Any) -> bool:
    return node is not None and isinstance(bare(node), ExprNodes.NoneNode)


def is_nothing(node: Any) -> bool:
    """Whether it tells a caller that there is nothing for it."""
    inner = bare(node)
    return isinstance(inner, ExprNodes.NoneNode | ExprNodes.NullNode) or (
        isinstance(inner, ExprNodes.IntNode | ExprNodes.BoolNode) and str(inner.value) in ("0", "False")
    )


def is_true(node: Any) -> bool:
    inner = bare(node)
    return isinstance(inner, ExprNodes.BoolNode) and inner.value


def is_builtin_call(node: Any) -> bool:
    function = getattr(node, "function", None)
    return isinstance(function, ExprNodes.NameNode) and function.name in BUILTINS


@dataclasses.dataclass
class Function:
    name: str
    path: str
    node: Any
    params: list[str]
    calls: set[str] = dataclasses.field(default_factory=set)
    switch: str | None = None
    """Why it may switch."""
    needs: dict[str, str] = dataclasses.field(default_factory=dict)
    """Paths that it uses without a look -> where."""
    late: dict[str, str] = dataclasses.field(default_factory=dict)
    """Parameters that it uses after a switch -> where."""
    wants: set[str] = dataclasses.field(default_factory=set)
    """Parameters that it uses without a look at what vouches for them."""
    ensures: frozenset[str] | None = None
    """Paths from its parameters that it has looked at when it returns; None: it was not walked yet."""
    looks: set[str] = dataclasses.field(default_factory=set)
    """Parameters that it compares."""


@dataclasses.dataclass
class Local:
    volatile: bool = False
    of: frozenset[str] = frozenset()
    """Parameters from which it comes."""
    path: str | None = None
    """From which it was loaded."""
    stale: str | None = None
    looked: bool = False
    vouched: bool = False
    private: bool = False
    """An object that was made here: nobody else has it."""
    unlooked: str | None = None
    """The function whose result it is."""


@dataclasses.dataclass
class State:
    switched: str | None = None
    looked: frozenset[str] = frozenset()
    locals: dict[str, Local] = dataclasses.field(default_factory=dict)

    def copy(self) -> State:
        return State(
            self.switched,
            self.looked,
            {name: dataclasses.replace(each) for name, each in self.locals.items()},
        )


def join(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return b if a is None else a
    if (a.switched is None) != (b.switched is None):
        looked = a.looked if a.switched else b.looked  # the other one has lost nothing
    else:
        looked = a.looked & b.looked
    state = State(a.switched or b.switched, looked)
    for name in a.locals.keys() | b.locals.keys():
        x, y = a.locals.get(name), b.locals.get(name)
        if x is None or y is None:
            state.locals[name] = dataclasses.replace(x or y)  # type: ignore[type-var]
            continue
        state.locals[name] = Local(
            x.volatile or y.volatile,
            x.of | y.of,
            x.path if x.path == y.path else None,
            x.stale or y.stale,
            x.looked and y.looked,
            x.vouched and y.vouched,
            x.private and y.private,
            x.unlooked or y.unlooked,
        )
    return state
