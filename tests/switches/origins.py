"""Where a value comes from: which path it was loaded by, and whether it may go while others run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from Cython.Compiler import ExprNodes

from tests.switches.tables import (
    BORROWED,
    BUILTIN_TYPES,
    BUILTINS,
    DESCRIPTOR,
    KEPT_BY,
    NEVER,
    NOT_NULL,
    OWNED,
    POINTING,
    STEADY,
    STILL,
    SWITCHING,
)
from tests.switches.trees import Function, State, bare, is_object, is_pointer, owner_of, short

if TYPE_CHECKING:
    from tests.switches.program import Program


class Origins:
    """The part of a Walker that only looks."""

    def __init__(self, program: Program, function: Function) -> None:
        self.program = program
        self.function = function
        self.state: State | None = State()

    def is_extern(self, node: Any) -> bool:
        entry = getattr(node.function, "entry", None)
        return bool(entry is not None and (entry.visibility == "extern" or entry.is_builtin))

    def result_that_may_be_null(self, node: Any) -> str | None:
        call = bare(node)
        if (
            not isinstance(call, ExprNodes.SimpleCallNode)
            or not self.is_extern(call)
            or not is_pointer(call.type)
        ):
            return None
        name = str(call.function.entry.cname)
        type_ = call.function.type
        if type_.is_ptr:
            type_ = type_.base_type
        if name in NOT_NULL or not type_.is_cfunction or type_.exception_value is not None:
            return None
        return str(call.function.entry.name)

    def callees(self, node: Any) -> tuple[list[Function], str | None]:
        """The functions of ours that it may call; or, instead, why it may switch."""
        function = bare(node.function)
        entry = getattr(function, "entry", None)
        if is_object(function):
            return self.python_callees(node, function, entry)
        if entry is None:
            return [], "calls a function pointer"
        if entry.visibility == "extern" or entry.is_builtin:
            name = str(entry.cname)
            if SWITCHING.fullmatch(name) or SWITCHING.fullmatch(str(entry.name)):
                return [], f"calls {entry.name}"
            return [], None
        if isinstance(function, ExprNodes.AttributeNode) and entry.is_cmethod:
            class_type = function.obj.type
            if function.obj.type is not None and function.obj.type.is_extension_type:
                name = str(class_type.scope.qualified_name)
                if getattr(function, "is_py_attr", False):
                    return [], "calls a Python object"
                return self.program.implementations(name, function.attribute), None
            return self.program.implementations(str(entry.scope.qualified_name), function.attribute), None
        if entry.is_cfunction:
            name = f"{entry.scope.qualified_name}.{entry.name}"
            found = self.program.functions.get(name)
            return ([found], None) if found else ([], f"calls {name}, which is not found")
        return [], None if entry.name in STILL else f"calls the function in {entry.name}"

    def python_callees(self, node: Any, function: Any, entry: Any) -> tuple[list[Function], str | None]:
        if isinstance(function, ExprNodes.NameNode):
            known = (
                entry is not None
                and not entry.is_builtin
                and not (entry.scope and entry.scope.is_builtin_scope)
            )
            if not known and function.name in BUILTINS:
                return [], None
            entry = function.type_entry or entry
            if entry is not None and entry.is_type and entry.type.is_extension_type and entry.type.scope:
                return self.constructors(str(entry.type.scope.qualified_name)), None
            if str(function.name) in NEVER:
                return [], None
            return [], f"calls {function.name}()"
        if isinstance(function, ExprNodes.AttributeNode):
            obj = function.obj
            if function.attribute == "__new__":
                type_entry = getattr(bare(obj), "entry", None)
                if type_entry is not None and type_entry.is_type and type_entry.type.is_extension_type:
                    return self.constructors(str(type_entry.type.scope.qualified_name), ("__cinit__",)), None
            if is_object(obj) and obj.type.is_builtin_type and obj.type.name in BUILTIN_TYPES:
                return [], None
            name = f"{self.text(obj)}.{function.attribute}"
            if name in NEVER or f".{function.attribute}" in NEVER:
                return [], None
            return [], f"calls {name}()"
        return [], "calls a Python object"

    def constructors(self, name: str, methods: tuple[str, ...] = ("__cinit__", "__init__")) -> list[Function]:
        found = []
        up: str | None = name
        while up:
            found += [
                self.program.functions[f"{up}.{each}"]
                for each in methods
                if f"{up}.{each}" in self.program.functions
            ]
            up = self.program.bases.get(up)
        return found

    @staticmethod
    def is_descriptor(name: str, type_: Any) -> bool:
        return bool(type_ is not None and type_.is_int and DESCRIPTOR.search(name))

    # -- names -----------------------------------------------------------------------------------------------

    def path(self, node: Any) -> str | None:
        """The expression as text, from a parameter or a local variable on."""
        node = bare(node)
        if isinstance(node, ExprNodes.NameNode):
            if self.state is not None:
                local = self.state.locals.get(str(node.name))
                if local is not None and local.path is not None:
                    return local.path
            return str(node.name)
        if isinstance(node, ExprNodes.AttributeNode):
            base = self.path(node.obj)
            return base and f"{base}.{node.attribute}"
        if isinstance(node, ExprNodes.AmpersandNode):
            return self.path(node.operand)
        if isinstance(node, ExprNodes.IndexNode):
            base = self.path(node.base)
            index = bare(node.index)
            if isinstance(index, ExprNodes.IntNode) and index.value == "0" and is_pointer(node.base.type):
                return base
            return None
        return None

    def text(self, node: Any) -> str:
        return self.path(node) or "a value"

    # -- where a pointer comes from --------------------------------------------------------------------------

    def origin(self, node: Any) -> tuple[bool, frozenset[str], str | None]:
        """Whether it may be freed or moved while others run; the parameters that say so; whether it is."""
        nothing: frozenset[str] = frozenset()
        if is_object(node) and not is_object(bare(node)):
            pass
        inner = bare(node)
        if is_object(inner):
            return self.object_origin(inner), nothing, None
        if isinstance(inner, ExprNodes.NameNode):
            local = self.state.locals.get(str(inner.name)) if self.state else None
            if local is not None:
                return local.volatile, local.of, local.stale
            if inner.entry is not None and inner.entry.visibility == "extern":
                return False, nothing, None
            is_global = inner.entry is not None and not inner.entry.is_local and not inner.entry.is_arg
            return bool(is_global and is_pointer(inner.type) and not inner.entry.is_const), nothing, None
        if isinstance(inner, ExprNodes.AmpersandNode):
            return self.address_origin(inner.operand)
        if isinstance(inner, ExprNodes.AttributeNode):
            if inner.type.is_array:
                return self.address_origin(inner)
            place = (owner_of(inner.obj.type, inner.attribute), inner.attribute)
            if place in STEADY or (
                place in KEPT_BY and self.keeps(f"{self.path(inner.obj)}.{KEPT_BY[place]}")
            ):
                return False, nothing, None
            return True, nothing, None
        if isinstance(inner, ExprNodes.IndexNode):
            return True, nothing, None
        if isinstance(inner, ExprNodes.SimpleCallNode):
            if inner.type.is_int:
                return False, nothing, None  # a new descriptor
            if not self.is_extern(inner):
                function = bare(inner.function)
                if isinstance(function, ExprNodes.AttributeNode) and self.is_private(function.obj):
                    return False, nothing, None
                return not any(short(each.name) in OWNED for each in self.callees(inner)[0]), nothing, None
            name = str(inner.function.entry.name)
            return (
                self.together(inner.args or ())
                if POINTING.match(name)
                else (bool(BORROWED.match(name)), nothing, None)
            )
        if isinstance(inner, ExprNodes.BinopNode):
            return self.together([inner.operand1, inner.operand2])
        if isinstance(inner, ExprNodes.CondExprNode):
            return self.together([inner.true_val, inner.false_val])
        return False, nothing, None

    def is_private(self, node: Any) -> bool:
        inner = bare(node)
        local = (
            self.state.locals.get(str(inner.name))
            if self.state and isinstance(inner, ExprNodes.NameNode)
            else None
        )
        return local is not None and local.private

    def keeps(self, path: str) -> bool:
        """Whether a local variable refers to the object."""
        return self.state is not None and any(
            local.path == path and not local.volatile for local in self.state.locals.values()
        )

    def together(self, nodes: Iterable[Any]) -> tuple[bool, frozenset[str], str | None]:
        volatile, of, stale = False, frozenset[str](), None
        for each in nodes:
            if each.type is not None and (each.type.is_ptr or each.type.is_pyobject or each.type.is_array):
                a, b, c = self.origin(each)
                volatile, of, stale = volatile or a, of | b, stale or c
        return volatile, of, stale

    def address_origin(self, node: Any) -> tuple[bool, frozenset[str], str | None]:
        node = bare(node)
        if isinstance(node, ExprNodes.NameNode):
            return False, frozenset(), None
        if isinstance(node, ExprNodes.AttributeNode):
            if is_object(node.obj):
                inner = bare(node.obj)
                if is_object(inner):
                    return self.object_origin(inner), frozenset(), None
                return self.origin(inner)
            if is_pointer(node.obj.type):
                return self.origin(node.obj)
            return self.address_origin(node.obj)
        if isinstance(node, ExprNodes.IndexNode):
            return self.origin(node.base) if is_pointer(node.base.type) else self.address_origin(node.base)
        return False, frozenset(), None

    def object_origin(self, node: Any) -> bool:
        """Whether nothing here keeps the object alive while others run."""
        if isinstance(node, ExprNodes.TypecastNode | ExprNodes.CoercionNode):
            inner = bare(node)
            return self.object_origin(inner) if is_object(inner) else self.origin(inner)[0]
        if isinstance(node, ExprNodes.AttributeNode):
            if node.obj.type is None or not node.obj.type.is_extension_type:
                return not is_object(node.obj)
            place = (owner_of(node.obj.type, node.attribute), node.attribute)
            return place in self.program.changing or self.object_origin(node.obj)
        return False
