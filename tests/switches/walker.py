"""A walk through one function, in the order of evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from Cython.Compiler import ExprNodes, Nodes

from tests.switches.origins import Origins
from tests.switches.tables import (
    DEEPEST,
    FREEING,
    FULL,
    LATE,
    NEVER,
    NOT_LAST,
    STEADY,
    VOUCHES,
)
from tests.switches.trees import (
    Function,
    Local,
    State,
    bare,
    is_builtin_call,
    is_none,
    is_nothing,
    is_object,
    is_pointer,
    is_safe,
    is_true,
    join,
    owner_of,
    relative,
    short,
    walk,
)

if TYPE_CHECKING:
    from tests.switches.program import Program


class Walker(Origins):
    def __init__(
        self, program: Program, function: Function, findings: set[tuple[str, int, str]] | None
    ) -> None:
        super().__init__(program, function)
        self.findings = findings
        self.handlers: list[list[State]] = []
        self.loops: list[tuple[list[State], list[State]]] = []  # those at each break, at each continue

    def run(self) -> None:
        state = State()
        args = (
            self.function.node.args
            if isinstance(self.function.node, Nodes.DefNode)
            else self.function.node.type.args
        )
        for arg in args:
            if is_pointer(arg.type) or self.is_descriptor(str(arg.name), arg.type):
                state.locals[str(arg.name)] = Local(of=frozenset([str(arg.name)]))
        self.state = state
        self.exits: dict[bool, frozenset[str]] = {}
        self.statement(self.function.node.body)
        self.leave(False)
        # a caller tells 0 from something; 0 alone is success
        self.function.ensures = self.exits.get(True, self.exits.get(False, frozenset()))

    def leave(self, with_something: bool) -> None:
        """The function returns."""
        if self.state is not None:
            looked = frozenset(
                each
                for each in self.state.looked
                if each.partition(".")[0] in self.function.params and "." in each
            )
            self.exits[with_something] = looked & self.exits.get(with_something, looked)

    # -- reports ---------------------------------------------------------------------------------------------

    def report(self, node: Any, text: str) -> None:
        if self.findings is not None:
            self.findings.add(
                (relative(node.pos[0].filename), node.pos[1], f"{short(self.function.name)}: {text}")
            )

    def here(self, node: Any) -> str:
        return f"{self.function.path.rpartition('/')[2]}:{node.pos[1]}"

    def switch(self, node: Any, why: str, by: Function | None = None) -> None:
        if short(self.function.name) in NEVER:
            return
        if self.function.switch is None and by is None:
            self.function.switch = f"{why}, line {node.pos[1]}"
        if self.state is None:
            return
        where = f"line {node.pos[1]} ({why})"
        self.state.switched = where
        self.state.looked = frozenset()
        for local in self.state.locals.values():
            if (local.volatile or local.of) and not local.stale:
                local.stale = where
            local.looked = local.vouched = False
        if self.handlers:
            self.handlers[-1].append(self.state.copy())

    # -- statements ------------------------------------------------------------------------------------------

    def statement(self, node: Any) -> None:
        if node is None:
            return
        method = getattr(self, "do_" + type(node).__name__, None)
        if method is not None:
            method(node)
            return
        for name in node.child_attrs or ():
            child = getattr(node, name, None)
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ExprNodes.ExprNode):
                    self.use(each)
                elif each is not None:
                    self.statement(each)

    def do_StatListNode(self, node: Any) -> None:
        for each in node.stats:
            self.statement(each)

    def do_CFuncDefNode(self, node: Any) -> None:
        pass

    do_DefNode = do_CClassDefNode = do_PyClassDefNode = do_CVarDefNode = do_CFuncDefNode

    def do_IfStatNode(self, node: Any) -> None:
        ends: State | None = None
        for clause in node.if_clauses:
            self.condition(clause.condition)
            otherwise = self.state and self.state.copy()
            self.statement(clause.body)
            ends = join(ends, self.state)
            self.state = otherwise
        self.statement(node.else_clause)
        self.state = join(ends, self.state)

    def loop(self, node: Any, head: Any) -> None:
        for _ in range(3):
            before = self.state and self.state.copy()
            self.loops.append(([], []))
            head()
            after = self.state and self.state.copy()
            self.statement(node.body)
            breaks, continues = self.loops.pop()
            for each in continues:
                self.state = join(self.state, each)
            if self.state is not None:
                end = self.state
                self.state = join(end, before)
        endless = isinstance(node, Nodes.WhileStatNode) and is_true(node.condition)
        self.state = None if endless else after
        if not endless:
            self.statement(node.else_clause)
        for each in breaks:
            self.state = join(self.state, each)

    def do_WhileStatNode(self, node: Any) -> None:
        self.loop(node, lambda: self.condition(node.condition))

    def do_ForInStatNode(self, node: Any) -> None:
        self.use(node.iterator)
        sequence = bare(getattr(node.iterator, "sequence", node.iterator))

        def head() -> None:
            if is_object(sequence) and not sequence.type.is_builtin_type and not is_builtin_call(sequence):
                self.switch(node, "iterates over a Python object")
            self.assign(node.target, None)

        self.loop(node, head)

    do__ForInStatNode = do_ForInStatNode

    def do_ForFromStatNode(self, node: Any) -> None:
        self.use(node.bound1)
        self.use(node.bound2)
        self.loop(node, lambda: self.assign(node.target, None))

    def do_BreakStatNode(self, node: Any) -> None:
        if self.state is not None and self.loops:
            self.loops[-1][0].append(self.state)
        self.state = None

    def do_ContinueStatNode(self, node: Any) -> None:
        if self.state is not None and self.loops:
            self.loops[-1][1].append(self.state)
        self.state = None

    def do_ReturnStatNode(self, node: Any) -> None:
        if node.value is not None:
            value = bare(node.value)
            if isinstance(value, ExprNodes.NameNode):
                self.look(value)  # whoever gets it looks
            else:
                self.use(node.value, True)
        self.leave(node.value is not None and not is_nothing(node.value))
        self.state = None

    def do_RaiseStatNode(self, node: Any) -> None:
        for each in (node.exc_type, node.exc_value):
            if each is not None:
                call = bare(each)
                if isinstance(call, ExprNodes.SimpleCallNode) and is_object(call.function):
                    for arg in call.args or ():  # an exception is made without foreign code
                        self.use(arg)
                else:
                    self.use(each)
        if self.handlers and self.state is not None:
            self.handlers[-1].append(self.state)
        self.state = None

    def do_ReraiseStatNode(self, node: Any) -> None:
        self.state = None

    def do_AssertStatNode(self, node: Any) -> None:
        self.condition(node.condition)

    def body_of_try(self, body: Any) -> State | None:
        """The state in a handler."""
        if self.state is None:
            return None
        self.handlers.append([self.state.copy()])
        self.statement(body)
        states = self.handlers.pop()
        if self.state is not None:
            states.append(self.state)
        handler: State | None = None
        for each in states:
            handler = join(handler, each.copy())
        if self.handlers:
            self.handlers[-1].extend(each.copy() for each in states)
        return handler

    def do_TryExceptStatNode(self, node: Any) -> None:
        handler = self.body_of_try(node.body)
        self.statement(node.else_clause)
        end = self.state
        for clause in node.except_clauses:
            self.state = handler and handler.copy()
            self.statement(clause.body)
            end = join(end, self.state)
        self.state = end

    def do_TryFinallyStatNode(self, node: Any) -> None:
        handler = self.body_of_try(node.body)
        end = self.state
        self.state = handler
        self.statement(node.finally_clause)
        if end is None:
            self.state = None

    def do_GILStatNode(self, node: Any) -> None:
        self.statement(node.body)

    def do_FromImportStatNode(self, node: Any) -> None:
        self.switch(node, "imports")

    def do_FromCImportStatNode(self, node: Any) -> None:
        pass

    do_CImportStatNode = do_FromCImportStatNode

    def do_WithStatNode(self, node: Any) -> None:
        self.use(node.manager)
        self.switch(node, "enters a context")
        self.statement(node.body)

    def do_DelStatNode(self, node: Any) -> None:
        for each in node.args:
            if isinstance(each, ExprNodes.IndexNode):
                self.use(each.base)
                self.switch(node, "drops an item")

    # -- assignments -----------------------------------------------------------------------------------------

    def do_SingleAssignmentNode(self, node: Any) -> None:
        self.value(node.rhs)
        self.assign(node.lhs, node.rhs)

    def do_ParallelAssignmentNode(self, node: Any) -> None:
        for each in node.stats:
            self.value(each.rhs)
        for each in node.stats:
            self.assign(each.lhs, each.rhs)

    def do_CascadedAssignmentNode(self, node: Any) -> None:
        self.value(node.rhs)
        for each in node.lhs_list:
            self.assign(each, node.rhs)

    def do_InPlaceAssignmentNode(self, node: Any) -> None:
        left = node.lhs
        self.use(node.rhs)
        self.use(left)

    def value(self, node: Any) -> None:
        """The right side: a load is no use."""
        inner = bare(node)
        if isinstance(inner, ExprNodes.NameNode):
            return
        self.use(node, True)

    def assign(self, left: Any, right: Any) -> None:
        if self.state is None:
            return
        left = bare(left)
        if isinstance(left, ExprNodes.TupleNode | ExprNodes.ListNode):
            for each in left.args:
                self.assign(each, None)
            return
        if isinstance(left, ExprNodes.NameNode):
            entry = left.entry
            if (
                entry is not None
                and not entry.is_local
                and not entry.is_arg
                and not is_safe(left.type)
                and is_none(right)
            ):
                self.switch(left, f"drops what {left.name} was")
            self.assign_local(str(left.name), left.type, right)
            return
        if isinstance(left, ExprNodes.AttributeNode):
            self.use(left.obj)
            if is_pointer(left.obj.type):
                self.dereference(left.obj)
            if left.type.is_pyobject and left.obj.type.is_extension_type:
                if (
                    not is_safe(left.type)
                    and not self.is_fresh()
                    and is_none(right)
                    and left.attribute not in NOT_LAST
                ):
                    self.switch(left, f"drops what {self.text(left)} was")
            elif left.type.is_pyobject:
                self.switch(left, f"sets {left.attribute} of a Python object")
            self.forget(self.path(left))
            if right is not None and left.type.is_pyobject and not is_none(right):
                path = self.path(left)
                if path:
                    self.state.looked |= {path}
            if right is not None and is_pointer(left.type):
                result = self.result_that_may_be_null(right)
                path = self.path(left)
                if isinstance(bare(right), ExprNodes.NullNode):
                    for local in self.state.locals.values():
                        if local.path == path:
                            local.volatile = False  # it was moved here
                if result is None and path and not isinstance(bare(right), ExprNodes.NullNode):
                    self.state.looked |= {path}
            return
        if isinstance(left, ExprNodes.IndexNode):
            self.use(left.base)
            self.use(left.index)
            if is_pointer(left.base.type):
                self.dereference(left.base)
            if left.type.is_pyobject and is_none(right):
                self.switch(left, "drops an item")

    def is_fresh(self) -> bool:
        return self.function.name.rpartition(".")[2] in ("__cinit__", "__init__")

    def assign_local(self, name: str, type_: Any, right: Any) -> None:
        assert self.state is not None
        self.forget(name)
        if is_pointer(type_) or type_.is_array or self.is_descriptor(name, type_):
            if right is None:
                self.state.locals[name] = Local()
                return
            volatile, of, stale = self.origin(right)
            path = self.path(right)
            self.state.locals[name] = Local(
                volatile,
                of,
                path,
                stale,
                path in self.state.looked if path else False,
                False,
                False,
                self.result_that_may_be_null(right),
            )
        elif type_.is_pyobject and right is not None:
            path = self.path(right)
            call = bare(right)
            made = is_none(right) or (
                isinstance(call, ExprNodes.SimpleCallNode)
                and bool(
                    getattr(bare(call.function), "type_entry", None)
                    or getattr(bare(call.function), "attribute", "") == "__new__"
                )
            )
            self.state.locals[name] = Local(path=path, private=made)

    def forget(self, path: str | None) -> None:
        """What was said of this, and of what begins with it, does not hold any more."""
        if path is None or self.state is None:
            return
        self.state.looked = frozenset(
            each for each in self.state.looked if each != path and not each.startswith(path + ".")
        )

    # -- looks -----------------------------------------------------------------------------------------------

    def condition(self, node: Any) -> None:
        """A comparison, or a value whose truth counts: a look."""
        inner = bare(node)
        if isinstance(inner, ExprNodes.BoolBinopNode):
            self.condition(inner.operand1)
            before = self.state and self.state.copy()
            self.condition(inner.operand2)
            if self.state is not None and before is not None and self.state.switched != before.switched:
                looked = self.state.looked
                self.state = join(self.state, before)
                assert self.state is not None
                self.state.looked |= looked
        elif isinstance(inner, ExprNodes.NotNode):
            self.condition(inner.operand)
        elif isinstance(inner, ExprNodes.PrimaryCmpNode):
            self.compare(inner)
        elif isinstance(inner, ExprNodes.NameNode | ExprNodes.AttributeNode):
            if isinstance(inner, ExprNodes.AttributeNode):
                self.use(inner, True)
            self.look(inner)
        else:
            self.use(node, True)

    def compare(self, node: Any) -> None:
        nothing = any(
            isinstance(bare(each), ExprNodes.NullNode | ExprNodes.NoneNode)
            for each in (node.operand1, node.operand2)
        )
        for each in (node.operand1, node.operand2):
            inner = bare(each)
            if (
                isinstance(inner, ExprNodes.NameNode | ExprNodes.AttributeNode)
                and inner.type is not None
                and (inner.type.is_ptr or inner.type.is_int or inner.type.is_pyobject)
            ):
                if isinstance(inner, ExprNodes.AttributeNode):
                    self.use(inner, True)
                self.look(inner, nothing)
            else:
                self.use(each, True)
                for part in walk(inner) if isinstance(inner, ExprNodes.BinopNode) else ():
                    if (
                        isinstance(part, ExprNodes.AttributeNode)
                        and part.type is not None
                        and part.type.is_int
                    ):
                        self.look(part)
        if node.cascade is not None:
            self.use(node.cascade.operand2)
        if node.operator not in ("is", "is_not") and all(
            is_object(each) and not each.type.is_builtin_type for each in (node.operand1, node.operand2)
        ):
            self.switch(node, "compares Python objects")

    def look(self, node: Any, at_nothing: bool = True) -> None:
        """`at_nothing`: it is compared with NULL, and not with another pointer."""
        if self.state is None:
            return
        node = bare(node)
        if isinstance(node, ExprNodes.NameNode):
            local = self.state.locals.get(str(node.name))
            if local is not None:
                local.looked = True
                if at_nothing:
                    local.unlooked = None
                if local.of == {str(node.name)}:
                    self.function.looks.add(str(node.name))
                if local.path is not None and not local.stale:
                    self.looked_at(local.path)
                return
        path = self.path(node)
        if path:
            self.looked_at(path)

    def looked_at(self, path: str) -> None:
        assert self.state is not None
        self.state.looked |= {path}
        base, _, field = path.rpartition(".")
        for one, other in VOUCHES:
            if field == one and base:
                self.state.looked |= {f"{base}.{other}"}
                local = self.state.locals.get(other)
                if local is not None:
                    local.stale, local.vouched = None, True

    # -- uses ------------------------------------------------------------------------------------------------

    def use(self, node: Any, passing: bool = False) -> None:
        """`passing`: the value itself is not followed yet."""
        if node is None or self.state is None:
            return
        method = getattr(self, "use_" + type(node).__name__, None)
        if method is not None:
            method(node, passing)
            return
        if isinstance(node, ExprNodes.SimpleCallNode):
            self.use_SimpleCallNode(node, passing)
            return
        if isinstance(node, ExprNodes.BinopNode):
            self.binary(node)
            return
        if isinstance(node, ExprNodes.CloneNode):
            return
        if isinstance(node, ExprNodes.CoercionNode):
            self.use(node.arg, passing)
            return
        for name in node.child_attrs or ():
            child = getattr(node, name, None)
            for each in child if isinstance(child, list) else [child]:
                self.use(each)

    def use_TypecastNode(self, node: Any, passing: bool) -> None:
        if is_object(node) and not is_object(node.operand):
            self.use(node.operand, True)
            self.dereference(node.operand)
        else:
            self.use(node.operand, passing)

    def use_NameNode(self, node: Any, passing: bool) -> None:
        if node.type is None or not (is_pointer(node.type) or self.is_descriptor(str(node.name), node.type)):
            return
        assert self.state is not None
        local = self.state.locals.get(str(node.name))
        if local is None:
            return
        if not local.vouched:
            self.function.wants.update(local.of)
        if local.stale:
            if local.volatile:
                self.report(node, f"{node.name} was loaded before {local.stale}: load it again")
            for param in local.of:
                if (short(self.function.name), param) not in LATE:
                    self.function.late.setdefault(param, f"{self.here(node)} after {local.stale}")
        if not passing and local.unlooked:
            self.report(node, f"{node.name} may be NULL: {local.unlooked}() was not looked at")

    def use_AttributeNode(self, node: Any, passing: bool) -> None:
        if node.obj is None or node.type is None:
            return
        self.use(node.obj, True)
        self.follow(node.obj)

    def follow(self, obj: Any) -> None:
        """A field or a method of it is used, which Cython does without a look at NULL or None."""
        if obj.type is None or self.state is None:
            return
        if is_pointer(obj.type):
            self.dereference(obj)
        elif obj.type.is_extension_type:
            inner = bare(obj)
            if (
                isinstance(inner, ExprNodes.AttributeNode)
                and inner.type.is_extension_type
                and ((owner_of(inner.obj.type, inner.attribute), inner.attribute) in self.program.changing)
            ):
                path = self.path(inner)
                if path is not None:
                    self.need(obj, path, self.here(obj))

    def use_AmpersandNode(self, node: Any, passing: bool) -> None:
        self.use(node.operand, True)

    def use_IndexNode(self, node: Any, passing: bool) -> None:
        self.use(node.base, True)
        self.use(node.index)
        if is_pointer(node.base.type):
            self.dereference(node.base)

    def dereference(self, node: Any) -> None:
        """Something that may be NULL is followed, or given to a function that follows it."""
        if self.state is None:
            return
        node = bare(node)
        if isinstance(node, ExprNodes.NameNode):
            local = self.state.locals.get(str(node.name))
            if local is not None and local.unlooked:
                self.report(node, f"{node.name} may be NULL: {local.unlooked}() was not looked at")
                local.unlooked = None
            return
        result = self.result_that_may_be_null(node)
        if result:
            self.report(node, f"the result of {result}() may be NULL")
        if isinstance(node, ExprNodes.AttributeNode) and is_pointer(node.type):
            place = (owner_of(node.obj.type, node.attribute), node.attribute)
            if place not in self.program.nullable or place in STEADY or place in FULL:
                return
            path = self.path(node)
            if path is not None:
                self.need(node, path, self.here(node))

    def need(self, node: Any, path: str, where: str) -> None:
        assert self.state is not None
        root = self.state.locals.get(path.partition(".")[0])
        if path in self.state.looked or (root is not None and root.private):
            return
        if self.state.switched:
            self.report(
                node, f"{path} may be NULL or None after {self.state.switched}: look again (used at {where})"
            )
            self.state.looked |= {path}
        elif path.partition(".")[0] in self.function.params and path.count(".") < DEEPEST:
            self.function.needs.setdefault(path, where)

    def binary(self, node: Any) -> None:
        for each in (node.operand1, node.operand2):
            self.use(each)
            if isinstance(bare(each), ExprNodes.NameNode | ExprNodes.SimpleCallNode) and is_pointer(
                each.type
            ):
                self.dereference(each)  # of a field it may be an empty buffer's
        if node.operator == "%" and is_object(node) and node.operand1.type.is_builtin_type:
            parts = bare(node.operand2)
            for each in parts.args if isinstance(parts, ExprNodes.TupleNode) else [parts]:
                if not is_safe(bare(each).type):
                    self.switch(node, "formats a Python object")

    def use_PrimaryCmpNode(self, node: Any, passing: bool) -> None:
        self.compare(node)

    def use_BoolBinopNode(self, node: Any, passing: bool) -> None:
        self.condition(node)

    def use_NotNode(self, node: Any, passing: bool) -> None:
        self.condition(node)

    def use_CondExprNode(self, node: Any, passing: bool) -> None:
        self.condition(node.condition)
        before = self.state and self.state.copy()
        self.use(node.true_val, passing)
        after, self.state = self.state, before
        self.use(node.false_val, passing)
        self.state = join(self.state, after)

    def use_ImportNode(self, node: Any, passing: bool) -> None:
        self.switch(node, "imports")

    def use_FormattedValueNode(self, node: Any, passing: bool) -> None:
        self.use(node.value)
        value = bare(node.value)
        if is_object(value) and not value.type.is_builtin_type:
            self.switch(node, "formats a Python object")

    # -- calls -----------------------------------------------------------------------------------------------

    def use_GeneralCallNode(self, node: Any, passing: bool) -> None:
        self.use(node.function, True)
        self.use(node.positional_args)
        self.use(node.keyword_args)
        function = bare(node.function)
        callees, why = self.python_callees(node, function, getattr(function, "entry", None))
        self.called(node, callees, why)

    def use_PythonCapiCallNode(self, node: Any, passing: bool) -> None:
        for arg in node.args:
            self.use(arg)

    def use_SimpleCallNode(self, node: Any, passing: bool) -> None:
        function = bare(node.function)
        receiver = function.obj if isinstance(function, ExprNodes.AttributeNode) else None
        if receiver is not None:
            self.use(receiver, True)
            entry = getattr(function, "entry", None)
            if entry is not None and entry.is_cmethod:
                self.follow(receiver)
        args = list(node.args or ()) or list(getattr(node.arg_tuple, "args", None) or ())
        extern = self.is_extern(node)
        callees, why = self.callees(node)
        entry = getattr(function, "entry", None)
        is_method = bool(entry is not None and getattr(entry, "is_cmethod", False) and receiver is not None)
        for i, arg in enumerate(args):
            if (
                isinstance(bare(arg), ExprNodes.NameNode)
                and callees
                and not any(
                    callee.params[i + is_method : i + is_method + 1]
                    and callee.params[i + is_method] in callee.wants
                    for callee in callees
                )
            ):
                continue
            self.use(arg, True)
        if is_method and args and node.self is not None:
            args = args[1:] if len(args) and isinstance(args[0], ExprNodes.CloneNode) else args
        sizes = {
            self.path(part)
            for arg in args
            for part in walk(arg)
            if isinstance(part, ExprNodes.AttributeNode) and part.attribute == "size"
        }
        for i, arg in enumerate(args):
            if arg.type is None or not is_pointer(arg.type):
                continue
            if (self.path(arg) or "").removesuffix("data") + "size" in sizes:
                continue  # nothing of it is read if it is empty
            if extern or not callees:
                if entry is None or str(entry.cname) not in FREEING:
                    self.dereference(arg)
            else:
                for callee in callees:
                    params = callee.params[1:] if is_method else callee.params
                    if i < len(params) and params[i] not in callee.looks:
                        self.dereference(arg)
                        break
        for callee in callees:
            self.hand_over(node, callee, receiver if is_method else None, args)
        self.called(node, callees, why)
        self.taken(node, args)
        ensured: frozenset[str] | None = None
        for callee in callees:
            given = dict(zip(callee.params, ([receiver] if is_method else []) + args, strict=False))
            paths = set()
            for path in callee.ensures or ():
                root, dot, rest = path.partition(".")
                base = self.path(given[root]) if root in given else None
                if base is not None:
                    paths.add(base + dot + rest)
            ensured = frozenset(paths) if ensured is None else ensured & paths
        if ensured and self.state is not None:
            self.state.looked |= ensured

    def hand_over(self, node: Any, callee: Function, receiver: Any, args: list[Any]) -> None:
        """The duties of a caller."""
        if self.state is None:
            return
        params = callee.params
        given = dict(zip(params, ([receiver] if receiver is not None else []) + args, strict=False))
        for path, where in list(callee.needs.items()):
            root, dot, rest = path.partition(".")
            if root not in given:
                continue
            base = self.path(given[root])
            if base is not None:
                self.need(node, base + dot + rest, where)
        for param, where in list(callee.late.items()):
            if param not in given:
                continue
            volatile, of, _ = self.origin(given[param])
            if volatile:
                self.report(
                    node,
                    f"{param} of {short(callee.name)} is used at {where}, and may be freed or closed by then",
                )
            for each in of:
                if (short(self.function.name), each) not in LATE:
                    self.function.late.setdefault(each, where)
        if callee.switch and receiver is not None and self.object_origin(receiver):
            self.report(
                node, f"nothing keeps {self.text(receiver)} alive in {short(callee.name)}, which may switch"
            )

    def taken(self, node: Any, args: list[Any]) -> None:
        """A reference of its own makes a pointer a good one."""
        if str(getattr(getattr(node.function, "entry", None), "cname", "")) in ("Py_INCREF", "Py_XINCREF"):
            for arg in args:
                inner = bare(arg)
                if isinstance(inner, ExprNodes.NameNode) and self.state is not None:
                    local = self.state.locals.get(str(inner.name))
                    if local is not None:
                        local.volatile, local.of = False, frozenset()

    def called(self, node: Any, callees: list[Function], why: str | None) -> None:
        if why is not None:
            self.switch(node, why)
            return
        for callee in callees:
            self.function.calls.add(callee.name)
            if callee.switch and short(callee.name) not in NEVER:
                self.switch(node, f"calls {short(callee.name)}", callee)
                break
