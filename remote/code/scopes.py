"""What the names of a module's source mean, as references: imports, classes, assignments, parameters, annotations.

Nothing flows: a name that is bound in ways that disagree means nothing (None), and so does all that is made of it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remote.code.references import Attribute, Instance, Module, Result, Super

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.code.references import Reference

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp,
         ast.GeneratorExp)  # fmt: skip
CLASS_METHODS = ("__new__", "__init_subclass__", "__class_getitem__")  # so even without a decorator
# A binding: an expression whose meaning the name takes, a reference, or None for what cannot be followed.
Binding = ast.expr | Module | Attribute | Instance | Result | Super | None


@dataclass(slots=True)
class Scope:
    """The names of one module, function or comprehension.

    `owner` is the class whose method this is in; `later` says that the code here does not run at import.
    """

    names: dict[str, list[Binding]]
    parent: Scope | None = None
    owner: Owner | None = None
    later: bool = False
    narrowed: frozenset[str] = frozenset()
    busy: set[str] = field(default_factory=set)

    def look_up(self, name: str) -> Reference | None:
        """Give what a name means here, or None."""
        if name not in self.names:
            return self.parent.look_up(name) if self.parent else None
        if name in self.busy:  # x = x.y: the circle has no meaning of its own
            return None
        self.busy.add(name)
        try:
            return _agreed(self.binding(binding) for binding in self.names[name] if not _is_none(binding))
        finally:
            self.busy.discard(name)

    def meaning(self, node: ast.expr) -> Reference | None:
        """Give what an expression means here, or None."""
        if isinstance(node, ast.NamedExpr):
            return self.meaning(node.value)
        if isinstance(node, ast.IfExp):
            return _agreed([self.meaning(node.body), self.meaning(node.orelse)])
        if isinstance(node, ast.Call):
            return self._call(node)
        if not isinstance(node, ast.Name | ast.Attribute) or (self.narrowed and ast.unparse(node) in self.narrowed):
            return None
        return self.look_up(node.id) if isinstance(node, ast.Name) else self._attribute(node)

    def annotated(self, node: ast.expr | None) -> Reference | None:
        """Give what an object annotated so is; `X | None` and `Optional[X]` count as X."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.annotated(_parsed(node.value))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [side for side in (node.left, node.right) if not _is_none(side)]
            return self.annotated(sides[0]) if len(sides) == 1 else None
        if isinstance(node, ast.Subscript):
            optional = isinstance(node.value, ast.Name | ast.Attribute) and ast.unparse(node.value).endswith("Optional")
            return self.annotated(node.slice) if optional else None
        named = self.meaning(node) if isinstance(node, ast.Name | ast.Attribute) else None
        return Instance(named) if named else None

    def binding(self, binding: Binding) -> Reference | None:
        """Give what a name bound so means."""
        return self.meaning(binding) if isinstance(binding, ast.expr) else binding

    def _attribute(self, node: ast.Attribute) -> Reference | None:
        of = self.meaning(node.value)
        if of is None:
            return None
        if self.owner and of == Instance(self.owner.reference) and node.attr in self.owner.attributes:
            return self.owner.attribute(node.attr)
        return Attribute(of, node.attr)

    def _call(self, node: ast.Call) -> Reference | None:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return Super(self.owner.reference) if self.owner else None
        callee = self.meaning(node.func)
        return Result(callee) if callee else None


@dataclass(slots=True)
class Owner:
    """A class of the module: what its methods assign to `self.…`, each in the scope where it is said."""

    reference: Reference
    attributes: dict[str, list[tuple[Scope, Binding]]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    def attribute(self, name: str) -> Reference | None:
        """Give what an attribute of the class's objects is, where all assignments agree."""
        if name in self.busy:
            return None
        self.busy.add(name)
        try:
            said = self.attributes[name]
            return _agreed(scope.binding(binding) for scope, binding in said if not _is_none(binding))
        finally:
            self.busy.discard(name)


def module_scope(tree: ast.Module, name: str, package: str) -> Scope:
    """Give the scope of a module: single imports mean their source, all else what the module holds at run time."""
    imports: dict[str, list[Reference | None]] = {}
    others: set[str] = set()
    for node in _own_nodes(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for bound, reference in imported(node, package):
                imports.setdefault(bound, []).append(reference)
        else:
            others.update(bound for bound, _ in _bound(node, Scope({})))
    names: dict[str, list[Binding]] = {bound: [Attribute(Module(name), bound)] for bound in {*others, *imports}}
    for bound, references in imports.items():
        if len(set(references)) == 1 and bound not in others:
            names[bound] = [references[0]]
    return Scope(names)


def function_scope(node: Function, parent: Scope, first: Reference | None, owner: Owner | None, package: str) -> Scope:
    """Give the scope of a function; `first` is what its first parameter is (`self`, `cls`), where that is known."""
    body = [node.body] if isinstance(node.body, ast.expr) else node.body
    scope = Scope({}, parent, owner, later=True, narrowed=parent.narrowed | narrowed(body))
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument in [*positional, *arguments.kwonlyargs]:
        scope.names[argument.arg] = [parent.annotated(argument.annotation)]
    for variadic in (arguments.vararg, arguments.kwarg):
        if variadic:
            scope.names[variadic.arg] = [None]
    if first and positional:
        scope.names[positional[0].arg] = [first]
    elsewhere: set[str] = set()
    for inner in _own_nodes(body):
        if isinstance(inner, ast.Global | ast.Nonlocal):
            elsewhere.update(inner.names)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            _bind(scope, imported(inner, package))
        else:
            _bind(scope, _bound(inner, scope))
    for name in elsewhere:
        scope.names.pop(name, None)
    return scope


def comprehension_scope(node: Comprehension, parent: Scope) -> Scope:
    """Give the scope of a comprehension: its targets mean nothing that could be followed."""
    targets = [name.id for part in node.generators for name in ast.walk(part.target) if isinstance(name, ast.Name)]
    return Scope({name: [None] for name in targets}, parent, parent.owner, later=parent.later, narrowed=parent.narrowed)


def owner_of(node: ast.ClassDef, reference: Reference, module: Scope, package: str) -> Owner:
    """Gather what a class of the module assigns to its objects."""
    owner = Owner(reference)
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotated = module.annotated(statement.annotation)
            owner.attributes.setdefault(statement.target.id, []).append((module, annotated))
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            _gather(owner, statement, function_scope(statement, module, first_of(statement, owner), owner, package))
    return owner


def first_of(node: Function, owner: Owner) -> Reference | None:
    """Give what the first parameter of a method is."""
    decorators = {ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])}
    if "staticmethod" in decorators:
        return None
    of_class = "classmethod" in decorators or getattr(node, "name", "") in CLASS_METHODS
    return owner.reference if of_class else Instance(owner.reference)


def imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Reference | None]]:
    """Give the names that an import binds, with what they mean."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield (alias.asname, Module(alias.name)) if alias.asname else _top(alias.name)
        elif alias.name != "*":
            source = source_of(node, package)
            yield alias.asname or alias.name, Attribute(Module(source), alias.name) if source else None


def source_of(node: ast.ImportFrom, package: str) -> str:
    """Give the full name of the module that a `from … import` reads; empty where it cannot be."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])]) if parts else ""


def narrowed(body: Iterable[ast.AST]) -> frozenset[str]:
    """Give what `isinstance` is asked of: what is known of it changes with the branch, so nothing is."""
    calls = (node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Call))
    return frozenset(
        ast.unparse(call.args[0])
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in {"isinstance", "issubclass"} and call.args
    )


def _top(name: str) -> tuple[str, Reference]:
    first = name.split(".", 1)[0]
    return first, Module(first)


def _gather(owner: Owner, method: Function, scope: Scope) -> None:
    receiver = method.args.args[0].arg if method.args.args else None
    for node in ast.walk(method):
        for target, binding in _assigned(node, scope):
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == receiver:
                owner.attributes.setdefault(target.attr, []).append((scope, binding))


def _assigned(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.expr, Binding]]:
    """Give the targets of an assignment, with what each gets."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, ast.AnnAssign):
        said = node.value is not None and not _is_none(node.value)
        yield node.target, node.value if said else scope.annotated(node.annotation)
    elif isinstance(node, ast.AugAssign):
        yield node.target, None
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield from _unpacked(node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars:
        yield from _unpacked(node.optional_vars, None)


def _unpacked(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.expr, Binding]]:
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) and _same_length(target, value) else None
        for index, part in enumerate(target.elts):
            yield from _unpacked(part, values[index] if values else None)
    elif isinstance(target, ast.Starred):
        yield target.value, None
    else:
        yield target, value


def _same_length(target: ast.Tuple | ast.List, value: ast.Tuple | ast.List) -> bool:
    starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    return len(target.elts) == len(value.elts) and not starred


def _bind(scope: Scope, bindings: Iterable[tuple[str, Binding]]) -> None:
    for name, binding in bindings:
        scope.names.setdefault(name, []).append(binding)


def _bound(node: ast.AST, scope: Scope) -> Iterator[tuple[str, Binding]]:
    """Give the names that one statement or expression binds in its own scope."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, None
    elif isinstance(node, ast.NamedExpr):
        yield node.target.id, node.value
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name, None
    elif isinstance(node, ast.Delete):
        yield from ((part.id, None) for part in node.targets if isinstance(part, ast.Name))
    else:
        for target, binding in _assigned(node, scope):
            if isinstance(target, ast.Name):
                yield target.id, binding


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Walk what belongs to this scope itself, with the heads of inner scopes but not their bodies."""
    for node in body:
        yield node
        if not isinstance(node, INNER):
            yield from _own_nodes(ast.iter_child_nodes(node))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from (inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))


def _agreed(meanings: Iterable[Reference | None]) -> Reference | None:
    found = set(meanings)
    return found.pop() if len(found) == 1 else None


def _is_none(node: Binding) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
