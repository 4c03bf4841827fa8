"""The calls of a module, each with what it calls: imports, assigned instances and annotated parameters are followed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.static.sources import Definition, Sources, dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.static.sources import Function, Module


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `callee` is the class or function called, `function` the qualified name of the one around it."""

    node: ast.Call
    callee: Definition
    function: str

    @property
    def given(self) -> frozenset[str]:
        """The keywords that the call sets."""
        return frozenset(keyword.arg for keyword in self.node.keywords if keyword.arg)

    @property
    def open(self) -> bool:
        """Whether arguments are unpacked into the call, so that nobody can tell what it sets."""
        return any(k.arg is None for k in self.node.keywords) or any(isinstance(a, ast.Starred) for a in self.node.args)


def calls(sources: Sources, module: Module) -> tuple[Call, ...]:
    """Give the calls of a module whose callee is known, in the order of the text."""
    return tuple(sorted(_Reader(sources, module).read(), key=lambda call: (call.node.lineno, call.node.col_offset)))


def scopes(tree: ast.Module) -> Iterator[tuple[str, ast.ClassDef | None, Function]]:
    """Yield every function with its qualified name and the class around it."""

    def visit(
        body: list[ast.stmt], prefix: str, around: ast.ClassDef | None
    ) -> Iterator[tuple[str, ast.ClassDef | None, Function]]:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                yield from visit(statement.body, f"{prefix}{statement.name}.", statement)
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{statement.name}", around, statement
                yield from visit(statement.body, f"{prefix}{statement.name}.", around)

    return visit(tree.body, "", None)


def enclosing(tree: ast.Module, line: int) -> str:
    """Give the qualified name of the innermost function around a line, `<module>` where there is none."""
    around = [(f.lineno, name) for name, _, f in scopes(tree) if f.lineno <= line <= (f.end_lineno or f.lineno)]
    return max(around)[1] if around else "<module>"


class _Reader:
    def __init__(self, sources: Sources, module: Module) -> None:
        self.sources = sources
        self.module = module
        self.members = {
            cls.name: self._instances(cls, _self_attribute)
            for cls in ast.walk(module.tree)
            if isinstance(cls, ast.ClassDef)
        }

    def read(self) -> Iterator[Call]:
        inner = set()
        for name, around, function in sorted(scopes(self.module.tree), key=lambda s: -s[2].lineno):
            known = {**self._annotated(function), **self._instances(function, _plain)}
            attributes = self.members.get(around.name, {}) if around else {}
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and node not in inner:
                    inner.add(node)
                    if (callee := self._callee(node.func, known, attributes)) is not None:
                        yield Call(node, callee, name)
        for node in ast.walk(self.module.tree):
            if (
                isinstance(node, ast.Call)
                and node not in inner
                and (callee := self._callee(node.func, {}, {})) is not None
            ):
                yield Call(node, callee, "<module>")

    def _callee(
        self, func: ast.expr, known: dict[str, Definition], attributes: dict[str, Definition]
    ) -> Definition | None:
        name = dotted(func)
        if name is None:
            return None
        head, _, rest = name.partition(".")
        if head == "self":
            attribute, _, rest = rest.partition(".")
            owner = attributes.get(attribute)
        else:
            owner = known.get(head)
        if owner is None:
            return self.sources.expression(self.module.name, func) if head != "self" and head not in known else None
        for part in rest.split(".") if rest else ():
            owner = self.sources.member(owner, part) if owner else None
        return owner if rest else None

    def _instances(self, scope: ast.AST, target: Callable[[ast.expr], str | None]) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Call):
                name = target(node.targets[0])
                made = self.sources.expression(self.module.name, node.value.func)
                if name and made and isinstance(made.node, ast.ClassDef):
                    found[name] = made
        return found

    def _annotated(self, function: Function) -> dict[str, Definition]:
        found = {}
        for argument in [*function.args.args, *function.args.kwonlyargs]:
            if argument.annotation is not None:
                made = self.sources.expression(self.module.name, argument.annotation)
                if made and isinstance(made.node, ast.ClassDef):
                    found[argument.arg] = made
        return found


def _plain(target: ast.expr) -> str | None:
    return target.id if isinstance(target, ast.Name) else None


def _self_attribute(target: ast.expr) -> str | None:
    return target.attr if isinstance(target, ast.Attribute) and dotted(target.value) == "self" else None
