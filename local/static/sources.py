"""Looks up modules, classes and functions in sources, without importing: through re-exports and bases."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.static.tree import Project

Function = ast.FunctionDef | ast.AsyncFunctionDef
_HOPS = 12  # re-exports of re-exports; more is a cycle


@dataclass(frozen=True, slots=True)
class Definition:
    """A class or function: where it is written."""

    module: str
    name: str
    node: ast.ClassDef | Function

    @property
    def dotted(self) -> str:
        """The name for people: `package.module:Class.method`."""
        return f"{self.module}:{self.name}"


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed source; `exports` are the names bound at its top, by what binds them."""

    name: str
    package: str
    text: str
    tree: ast.Module
    exports: dict[str, ast.stmt]


class Sources:
    """Every source of a project, parsed when first asked for."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._modules: dict[str, Module | None] = {}
        self._own: dict[str, frozenset[str]] = {}

    def module(self, name: str) -> Module | None:
        """Give a module, None where there is none or it is not Python."""
        if name not in self._modules:
            self._modules[name] = self._parse(name)
        return self._modules[name]

    def _parse(self, name: str) -> Module | None:
        path = self.project.path(name)
        if path is None:
            return None
        text = path.read_text("utf-8", errors="replace")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return None
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        return Module(name=name, package=package, text=text, tree=tree, exports=dict(_bindings(tree.body)))

    def find(self, module: str, name: str) -> Definition | None:
        """Give the class or function that `module.name` is in the end; a dotted name goes through classes."""
        head, _, rest = name.partition(".")
        found = self._follow(module, head, _HOPS)
        for part in rest.split(".") if rest else ():
            found = self.member(found, part) if found else None
        return found

    def _follow(self, module: str, name: str, hops: int) -> Definition | None:
        source = self.module(module)
        statement = source.exports.get(name) if source else None
        if source is None or statement is None or hops == 0:
            return None
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return Definition(module, name, statement)
        if isinstance(statement, ast.ImportFrom):
            original = next(a.name for a in statement.names if (a.asname or a.name) == name)
            return self._follow(origin(statement, source.package), original, hops - 1)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            return self._follow(module, statement.value.id, hops - 1)
        return None

    def bases(self, definition: Definition) -> tuple[Definition | None, ...]:
        """Give the direct bases of a class; None for one that the surface does not hold."""
        node = definition.node
        if not isinstance(node, ast.ClassDef):
            return ()
        known = []
        for base in node.bases:
            expression = base.value if isinstance(base, ast.Subscript) else base
            known.append(self.expression(definition.module, expression))
        return tuple(known)

    def expression(self, module: str, node: ast.expr) -> Definition | None:
        """Give what a plain or dotted name at the top of a module stands for."""
        parts = dotted(node)
        if parts is None:
            return None
        if (found := self.find(module, parts)) is not None:
            return found
        source = self.module(module)
        head, _, rest = parts.partition(".")
        statement = source.exports.get(head) if source else None
        target = _imported_module(statement, head, source.package) if source and statement else None
        while target and rest:
            if (found := self.find(target, rest)) is not None:
                return found
            step, _, rest = rest.partition(".")
            target = f"{target}.{step}"
        return None

    def lineage(self, definition: Definition) -> tuple[tuple[Definition, ...], bool]:
        """Give a class with all its bases, nearest first, and whether all of them are known."""
        seen: dict[str, Definition] = {}
        whole = True
        queue = [definition]
        while queue:
            current = queue.pop(0)
            if current.dotted in seen:
                continue
            seen[current.dotted] = current
            for base in self.bases(current):
                if base is None:
                    whole = False
                else:
                    queue.append(base)
        return tuple(seen.values()), whole

    def member(self, definition: Definition, name: str) -> Definition | None:
        """Give a method or nested class by name, from the class or its nearest base that has it."""
        for cls in self.lineage(definition)[0]:
            for statement in cls.node.body:
                if (
                    isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                    and statement.name == name
                ):
                    # The last of several is the implementation behind overloads.
                    last = [s for s in cls.node.body if isinstance(s, type(statement)) and s.name == name][-1]
                    return Definition(cls.module, f"{cls.name}.{name}", last)
        return None

    def attributes(self, definition: Definition) -> frozenset[str]:
        """Give every name that a class or its known bases put on their instances."""
        names: set[str] = set()
        for cls in self.lineage(definition)[0]:
            if cls.dotted not in self._own:
                self._own[cls.dotted] = frozenset(_own_attributes(cls.node))
            names |= self._own[cls.dotted]
        return frozenset(names)


def origin(statement: ast.ImportFrom, package: str) -> str:
    """Give the absolute module that an import statement names, seen from a package."""
    if not statement.level:
        return statement.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - statement.level + 1]
    return ".".join([*above, *([statement.module] if statement.module else [])])


def dotted(node: ast.expr) -> str | None:
    """Give the text of a plain or dotted name, None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)) is not None:
        return f"{head}.{node.attr}"
    return None


def _imported_module(statement: ast.stmt, name: str, package: str) -> str | None:
    if isinstance(statement, ast.Import):
        alias = next(a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name)
        return alias.name if alias.asname else alias.name.partition(".")[0]
    if isinstance(statement, ast.ImportFrom):
        alias = next(a for a in statement.names if (a.asname or a.name) == name)
        return f"{origin(statement, package)}.{alias.name}"
    return None


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that statements bind, through `if` and `try`: the first branch of a choice speaks last."""
    for statement in body:
        match statement:
            case ast.If():
                yield from _bindings(statement.orelse)
                yield from _bindings(statement.body)
            case ast.Try():
                for handler in statement.handlers:
                    yield from _bindings(handler.body)
                yield from _bindings(statement.body)
            case _:
                yield from ((name, statement) for name in _bound_by(statement))


def _bound_by(statement: ast.stmt) -> tuple[str, ...]:
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return (name,)
        case ast.Import(names=names):
            return tuple(alias.asname or alias.name.partition(".")[0] for alias in names)
        case ast.ImportFrom(names=names):
            return tuple(alias.asname or alias.name for alias in names)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
    return ()


def _own_attributes(node: ast.ClassDef | Function) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and dotted(inner.value) == "self":
            yield inner.attr
