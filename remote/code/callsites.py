"""Find in a module's source every call, attribute and late import that a run may meet, and what each one names.

Only what runs later is taken: what stands outside of functions ran when the module was imported, which proved it.
"""

from __future__ import annotations

import ast
import io
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.code import scopes
from remote.code.references import Attribute, Instance, Module

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.code.references import Reference
    from remote.code.scopes import Owner, Scope

FORGIVEN = {"TypeError", "AttributeError", "ImportError", "ModuleNotFoundError"}
ASKING = ("version", "signature", "hasattr(", "parameters", "TYPE_CHECKING")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file: a 1-based line, 0-based characters of it."""

    line: int
    column: int
    end_column: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """One call: what it calls (None: not known), and what it hands over."""

    callee: Reference | None
    written: str
    place: Place
    positional: tuple[Place, ...]
    keywords: tuple[tuple[str, Place], ...]
    star: bool
    double_star: bool
    guard: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NameSite:
    """One use of a name of something known: an attribute, or (`late`) what an import inside a function wants."""

    reference: Attribute | Module
    written: str
    place: Place
    guard: str | None
    late: bool = False


@dataclass(frozen=True, slots=True)
class Sites:
    """What was found in a module; `lines` is its source."""

    calls: tuple[CallSite, ...]
    names: tuple[NameSite, ...]
    lines: tuple[str, ...]


def find(source: str, module: str, *, package: bool = False) -> Sites:
    """Find the sites of a module; `package` says that the source is an `__init__.py`."""
    tree = ast.parse(source)
    home = module if package else module.rpartition(".")[0]
    finder = _Finder(_lines(source), module, home, _asked_for(tree))
    finder.walk(tree.body, scopes.module_scope(tree, module, home))
    return Sites(tuple(finder.calls), tuple(finder.names), finder.lines)


def _asked_for(tree: ast.Module) -> frozenset[str]:
    """Give the names that the module itself asks after (`hasattr`, `getattr`) before it uses them."""
    return frozenset(
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"hasattr", "getattr"}
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    )


class _Finder:
    """Walks the source with the scope of each place in hand."""

    def __init__(self, lines: tuple[str, ...], module: str, home: str, asked: frozenset[str]) -> None:
        self.lines = lines
        self.module = module
        self.home = home
        self.asked = asked
        self.calls: list[CallSite] = []
        self.names: list[NameSite] = []
        self._guards: list[str] = []

    def walk(self, nodes: Iterable[ast.AST], scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.ClassDef):
            self._class(node, scope, None)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            self._function(node, scope)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            self.walk(ast.iter_child_nodes(node), scopes.comprehension_scope(node, scope))
        elif isinstance(node, ast.If | ast.IfExp):
            self._branches(node, scope)
        elif isinstance(node, ast.Try):
            self._try(node, scope)
        elif isinstance(node, ast.AnnAssign):
            self.walk(filter(None, [node.target, node.value]), scope)
        else:
            if scope.later:
                self._site(node, scope)
            self.walk(ast.iter_child_nodes(node), scope)

    def _class(self, node: ast.ClassDef, scope: Scope, outer: Owner | None) -> None:
        """Walk the methods; what a class body itself does, it did at import."""
        above = outer.reference if outer else Module(self.module)
        owner = None if scope.later else scopes.owner_of(node, Attribute(above, node.name), scope, self.home)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                first = scopes.first_of(statement, owner) if owner else None
                self._body(statement, scopes.function_scope(statement, scope, first, owner, self.home))
            elif isinstance(statement, ast.ClassDef):
                self._class(statement, scope, owner)

    def _function(self, node: scopes.Function, scope: Scope) -> None:
        heads = [*node.args.defaults, *filter(None, node.args.kw_defaults), *getattr(node, "decorator_list", [])]
        self.walk(heads, scope)
        self._body(node, scopes.function_scope(node, scope, None, scope.owner, self.home))

    def _body(self, node: scopes.Function, scope: Scope) -> None:
        guards, self._guards = self._guards, []
        self.walk([node.body] if isinstance(node.body, ast.expr) else node.body, scope)
        self._guards = guards

    def _branches(self, node: ast.If | ast.IfExp, scope: Scope) -> None:
        self._visit(node.test, scope)
        branches = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
        asking = any(word in ast.unparse(node.test) for word in ASKING)
        self._guarded("the source asks first" if asking else "", branches, scope)

    def _try(self, node: ast.Try, scope: Scope) -> None:
        caught = {word for handler in node.handlers for word in _names(handler.type)}
        self._guarded("the source catches it" if caught & FORGIVEN else "", node.body, scope)
        self.walk([*node.handlers, *node.orelse, *node.finalbody], scope)

    def _guarded(self, why: str, nodes: Iterable[ast.AST], scope: Scope) -> None:
        """Walk what the source itself guards, for the reason given, or does not guard (no reason)."""
        guards = self._guards
        self._guards = [*guards, why] if why else guards
        self.walk(nodes, scope)
        self._guards = guards

    def _site(self, node: ast.AST, scope: Scope) -> None:
        guard = self._guards[-1] if self._guards else None
        if isinstance(node, ast.Call):
            self.calls.append(self._call(node, scope, guard))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            self._attribute(node, scope, guard)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._late_import(node, guard)

    def _call(self, node: ast.Call, scope: Scope, guard: str | None) -> CallSite:
        return CallSite(
            callee=scope.meaning(node.func),
            written=ast.unparse(node.func),
            place=self._tail(node.func),
            positional=tuple(self._place(part) for part in node.args if not isinstance(part, ast.Starred)),
            keywords=tuple((part.arg, self._keyword(part)) for part in node.keywords if part.arg),
            star=any(isinstance(part, ast.Starred) for part in node.args),
            double_star=any(part.arg is None for part in node.keywords),
            guard=guard,
        )

    def _attribute(self, node: ast.Attribute, scope: Scope, guard: str | None) -> None:
        reference = scope.meaning(node)
        own = (scope.owner.reference, Instance(scope.owner.reference)) if scope.owner else ()
        hidden = node.attr.startswith("__") and not node.attr.endswith("__")  # its name is another at run time
        # What the module's own class lacks, a class below it or beside it may bring.
        if isinstance(reference, Attribute) and reference.of not in own and not hidden:
            guard = "the source asks first" if node.attr in self.asked else guard
            self.names.append(
                NameSite(reference=reference, written=ast.unparse(node), place=self._tail(node), guard=guard)
            )

    def _late_import(self, node: ast.Import | ast.ImportFrom, guard: str | None) -> None:
        source = scopes.source_of(node, self.home) if isinstance(node, ast.ImportFrom) else None
        for alias in node.names if source != "" else []:
            if alias.name != "*":
                reference = Module(alias.name) if source is None else Attribute(Module(source), alias.name)
                place = self._place(alias)
                self.names.append(
                    NameSite(reference=reference, written=alias.name, place=place, guard=guard, late=True)
                )

    def _tail(self, node: ast.expr) -> Place:
        """Place the last name of a callee: `schedule` of `self.scheduler.schedule`."""
        line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        if isinstance(node, ast.Attribute):
            return self._span(line, end - len(node.attr.encode()), end)
        return self._place(node)

    def _keyword(self, node: ast.keyword) -> Place:
        return self._span(node.lineno, node.col_offset, node.col_offset + len((node.arg or "").encode()))

    def _place(self, node: ast.expr | ast.alias) -> Place:
        """Place a node, or the first line of it where it spans several."""
        if node.end_lineno == node.lineno and node.end_col_offset is not None:
            return self._span(node.lineno, node.col_offset, node.end_col_offset)
        return self._span(node.lineno, node.col_offset, len(self.lines[node.lineno - 1].encode()))

    def _span(self, line: int, start: int, end: int) -> Place:
        """Turn the bytes that `ast` counts into characters."""
        data = self.lines[line - 1].encode()
        return Place(line, len(data[:start].decode("utf-8", "replace")), len(data[:end].decode("utf-8", "replace")))


def _lines(source: str) -> tuple[str, ...]:
    """Split where the parser splits: at line ends, not at form feeds."""
    return tuple(line.rstrip("\n") for line in io.StringIO(source, newline=None))


def _names(node: ast.expr | None) -> Iterator[str]:
    """Give the last names of the exceptions that a handler names."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node] if node else []
    return itertools.chain.from_iterable(ast.unparse(part).split(".")[-1:] for part in parts)
