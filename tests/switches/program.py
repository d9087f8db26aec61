"""All modules together: reading them, which functions may switch, and what they ask of their callers."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from Cython.Compiler import Errors, ExprNodes, Nodes, Options, Pipeline
from Cython.Compiler.Main import (
    CompilationOptions,
    CompilationSource,
    Context,
    create_default_resultobj,
)
from Cython.Compiler.ParseTreeTransforms import AnalyseExpressionsTransform
from Cython.Compiler.Scanning import FileSourceDescriptor

from tests.switches.tables import NEVER
from tests.switches.trees import Function, bare, owner_of, relative, short, walk
from tests.switches.walker import Walker


class Program:
    """All modules."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.bases: dict[str, str] = {}
        self.overriders: dict[str, list[str]] = {}
        self.nullable: set[tuple[str, str]] = set()
        self.changing: set[tuple[str, str]] = set()
        self.findings: set[tuple[str, int, str]] = set()

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, paths: Iterable[pathlib.Path], root: pathlib.Path) -> None:
        Errors.init_thread()
        options = CompilationOptions(
            Options.default_options,
            language_level="3",
            include_path=[str(root)],
            compiler_directives={"binding": True, "auto_pickle": False, "cdivision": True},
        )
        context = Context.from_options(options)
        for path in paths:
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            source = CompilationSource(
                FileSourceDescriptor(str(path), str(path.relative_to(root))), name, str(root)
            )
            result = create_default_resultobj(source, options)
            stages = []
            for stage in Pipeline.create_pyx_pipeline(context, options, result):
                stages.append(stage)
                if isinstance(stage, AnalyseExpressionsTransform):
                    break
            error, tree = Pipeline.run_pipeline(stages, source)
            if error or Errors.get_errors_count():
                raise SystemExit(f"{path}: {error}")
            self.collect(tree.body, name, None)
        for name, (tree, _) in context.pxds.items():
            if name.startswith("syncless."):
                self.collect(tree, name, None)  # inline functions

    def collect(self, node: Any, scope: str, class_type: Any) -> None:
        if node is None:
            return
        if isinstance(node, Nodes.StatListNode):
            for each in node.stats:
                self.collect(each, scope, class_type)
        elif isinstance(node, Nodes.CClassDefNode):
            type_ = node.entry.type
            name = str(type_.scope.qualified_name)
            if type_.base_type is not None and type_.base_type.scope is not None:
                self.bases[name] = str(type_.base_type.scope.qualified_name)
            self.collect(node.body, name, type_)
        elif isinstance(node, Nodes.CFuncDefNode | Nodes.DefNode):
            self.add(node, scope)
        elif isinstance(node, Nodes.PropertyNode):
            self.collect(node.body, scope + "." + node.name, class_type)
        elif isinstance(node, Nodes.CompilerDirectivesNode):
            self.collect(node.body, scope, class_type)
        elif isinstance(node, Nodes.IfStatNode):
            for clause in node.if_clauses:
                self.collect(clause.body, scope, class_type)

    def add(self, node: Any, scope: str) -> None:
        if node.body is None:
            return
        if isinstance(node, Nodes.DefNode):
            name = scope + "." + str(node.name)
            params = [str(each.name) for each in node.args]
        else:
            name = f"{node.entry.scope.qualified_name}.{node.entry.name}"
            params = [str(each.name) for each in node.type.args]
        path = node.pos[0].filename if hasattr(node.pos[0], "filename") else str(node.pos[0])
        self.functions[name] = Function(name, relative(path), node, params)

    # -- the facts that all functions need -------------------------------------------------------------------

    def study(self) -> None:
        for child, base in self.bases.items():
            up: str | None = base
            while up:
                self.overriders.setdefault(up, []).append(child)
                up = self.bases.get(up)
        for function in self.functions.values():
            first = function.name.rpartition(".")[2] in ("__cinit__", "__init__", "__dealloc__")
            for node in walk(function.node.body):
                self.study_node(node, first)
        for function in self.functions.values():
            Walker(self, function, None).run()
            function.needs.clear()
            function.late.clear()
        self.spread()
        for _ in range(4):
            for function in self.functions.values():
                Walker(self, function, None).run()
        for function in self.functions.values():
            function.needs.clear()
            function.late.clear()
            function.wants.clear()
        while True:
            before = [(len(each.needs), len(each.late), len(each.wants)) for each in self.functions.values()]
            self.findings.clear()
            for function in self.functions.values():
                Walker(self, function, self.findings).run()
            if before == [
                (len(each.needs), len(each.late), len(each.wants)) for each in self.functions.values()
            ]:
                return

    def study_node(self, node: Any, first: bool) -> None:
        if isinstance(node, ExprNodes.PrimaryCmpNode):
            for one, other in ((node.operand1, node.operand2), (node.operand2, node.operand1)):
                one, other = bare(one), bare(other)
                if (
                    not first
                    and isinstance(one, ExprNodes.AttributeNode)
                    and isinstance(other, ExprNodes.NullNode)
                ):
                    self.nullable.add((owner_of(one.obj.type, one.attribute), one.attribute))
        elif isinstance(node, Nodes.SingleAssignmentNode):
            left, right = bare(node.lhs), bare(node.rhs)
            if isinstance(left, ExprNodes.AttributeNode) and left.obj.type is not None:
                place = (owner_of(left.obj.type, left.attribute), left.attribute)
                if isinstance(right, ExprNodes.NullNode) and not first:
                    self.nullable.add(place)
                elif isinstance(right, ExprNodes.NoneNode) and not first:
                    self.changing.add(place)

    def spread(self) -> None:
        """A function that calls one that may switch may switch."""
        callers: dict[str, list[Function]] = {}
        for function in self.functions.values():
            for name in function.calls:
                callers.setdefault(name, []).append(function)
        to_do = [function for function in self.functions.values() if function.switch]
        while to_do:
            function = to_do.pop()
            for caller in callers.get(function.name, ()):
                if caller.switch is None and short(caller.name) not in NEVER:
                    caller.switch = f"calls {short(function.name)}"
                    to_do.append(caller)

    def implementations(self, class_name: str, method: str) -> list[Function]:
        found = []
        up: str | None = class_name
        while up:
            if f"{up}.{method}" in self.functions:
                found.append(self.functions[f"{up}.{method}"])
                break
            up = self.bases.get(up)
        for child in self.overriders.get(class_name, ()):
            if f"{child}.{method}" in self.functions:
                found.append(self.functions[f"{child}.{method}"])
        return found
