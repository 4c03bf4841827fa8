"""Tells noise from signal: each principle is a function that gives the reason why a report is no finding, or None."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from local.static.calls import enclosing, scopes
from local.static.sources import Definition, origin
from local.static.ty import OPINION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from local.static.sources import Module, Sources
    from local.static.ty import Diagnostic

# A class named by one of these arguments is mixed into vLLM's own: its attributes come from there.
MIXED_INTO = {"worker_extension_cls": ("vllm.v1.worker", "WorkerBase")}
_CATCHES = {
    "unresolved-import": {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"},
    "unresolved-attribute": {"AttributeError", "Exception", "BaseException"},
    "unknown-argument": {"TypeError", "Exception", "BaseException"},
    "missing-argument": {"TypeError", "Exception", "BaseException"},
    "too-many-arguments": {"TypeError", "Exception", "BaseException"},
    "undefined-name": {"NameError", "Exception", "BaseException"},
}
_TICKED = re.compile(r"`([^`]*)`")


def outside_surface(said: Diagnostic, module: Module, surfaced: frozenset[str]) -> str | None:
    """An import of a package whose sources were not asked for says nothing about the host."""
    if said.rule != "unresolved-import":
        return None
    tops = {name.partition(".")[0] for name in _imported(module, said.line)}
    unseen = sorted(tops - surfaced - sys.stdlib_module_names)
    if unseen and not tops & surfaced:
        return f"{', '.join(unseen)} is not part of the surface; the import level looks at it"
    return None


def guarded(said: Diagnostic, module: Module) -> str | None:
    """The code itself is ready for it: a `try` that catches this, or a branch that only type checkers take."""
    caught = _CATCHES.get(said.rule, set())
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Try) and _covers(node.body, said.line):
            for handler in node.handlers:
                if handler.type is None or caught & {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)}:
                    return "the code catches this error"
        if isinstance(node, ast.If) and _covers(node.body, said.line) and "TYPE_CHECKING" in ast.unparse(node.test):
            return "only type checkers read this branch"
    return None


def provided_by_host_class(said: Diagnostic, module: Module, sources: Sources, checked: Sequence[Module]) -> str | None:
    """A mixin's attribute that the class it is mixed into provides."""
    around = _class_around(module, said.line)
    if said.rule != "unresolved-attribute" or around is None or "Self@" not in said.message:
        return None
    attribute = _TICKED.findall(said.message)[-1]
    for argument in _named_as(f"{module.name}.{around}", checked):
        package, base = MIXED_INTO[argument]
        for host in _subclasses(sources, package, base):
            if attribute in sources.attributes(host):
                return f"{host.module}.{host.name}, into which `{argument}` mixes this class, provides it"
    return None


def opinion(said: Diagnostic) -> str | None:
    """A belief about a value's type is not about a name or a signature."""
    return "a belief about a value's type; the rehearsal shows what the value is" if said.rule == OPINION else None


def place(said: Diagnostic, module: Module) -> str:
    """Give the function in which something was said."""
    return enclosing(module.tree, said.line)


def _imported(module: Module, line: int) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if isinstance(node, ast.ImportFrom):
                yield origin(node, module.package)
            else:
                yield from (alias.name for alias in node.names)


def _covers(body: list[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _class_around(module: Module, line: int) -> str | None:
    for name, around, function in scopes(module.tree):
        if around is not None and function.lineno <= line <= (function.end_lineno or function.lineno):
            return name.rpartition(".")[0]
    return None


def _named_as(path: str, checked: Sequence[Module]) -> set[str]:
    """Give the arguments of MIXED_INTO to which a class's dotted path is passed in the modules under check."""
    return {
        keyword.arg
        for module in checked
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in MIXED_INTO and isinstance(keyword.value, ast.Constant) and keyword.value.value == path
    }


def _subclasses(sources: Sources, package: str, base: str) -> Iterator[Definition]:
    folder = sources.project.path(package)
    for file in sorted(folder.parent.glob("*worker*.py")) if folder else ():
        name = f"{package}.{file.stem}"
        module = sources.module(name)
        for statement in module.exports.values() if module else ():
            if isinstance(statement, ast.ClassDef):
                found = Definition(name, statement.name, statement)
                if any(cls.name == base for cls in sources.lineage(found)[0]):
                    yield found
