"""What the instances of a class will have, read from its sources: no instance is made, no weight is read.

A model's `__init__` says what its parts are (`self.model = LlamaModel(…)`); following such assignments through classes
that are imported already tells where the decoder layers live and of which class they are. What the sources do not
tell stays unknown (None, or no class), never "absent".
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FOREIGN = ("torch", "typing", "builtins", "abc", "typing_extensions", "collections")  # not searched for attributes
REGISTERED = "init_vllm_registered_model"  # vLLM's way to make a part whose class the configuration names
LAYERS = "make_layers"  # vLLM's way to make decoder layers: gives (start, end, layers)
DEEPEST = 8  # names that lead to names: enough for real code, an end for code that goes in circles
Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Assigned:
    """`self.NAME = value` in a method of `owner`; `position` where a tuple was unpacked."""

    owner: type
    function: ast.FunctionDef | ast.AsyncFunctionDef
    value: ast.expr
    position: int | None


class Blueprint:
    """Answers about classes; `registered` gives an architecture's class, `inner` names that of a wrapped text model."""

    def __init__(self, registered: Callable[[str], type | None], inner: Sequence[str] = ()) -> None:
        self._registered = registered
        self._inner = tuple(inner)
        self._assigned: dict[type, dict[str, list[Assigned]]] = {}

    def has(self, cls: type, name: str) -> bool | None:
        """Say whether instances have an attribute; None where the sources do not tell."""
        if hasattr(cls, name) or name in self._all(cls):
            return True
        for ancestor in _searched(cls):
            if class_node(ancestor) is None or "__getattr__" in vars(ancestor):
                return None
        return False

    def parts(self, cls: type, name: str) -> frozenset[type]:
        """Give the classes that an attribute of instances may have (of its elements, for a list of layers)."""
        found: set[type] = set()
        for assigned in self._all(cls).get(name, ()):
            found |= _Scope(self, cls, assigned.owner, assigned.function).instances(assigned.value, assigned.position)
        return frozenset(found)

    def follow(self, classes: frozenset[type], path: Sequence[str]) -> frozenset[type]:
        """Give the classes at the end of a path of attributes."""
        for name in path:
            classes = frozenset().union(*(self.parts(cls, name) for cls in classes)) if classes else classes
        return classes

    def find(self, cls: type, names: Sequence[str], depth: int = 3) -> tuple[str, ...] | None:
        """Give the shortest path to a part that has attributes of all these names."""
        level: list[tuple[tuple[str, ...], type]] = [((), cls)]
        for _ in range(depth + 1):
            for path, part in level:
                if all(self.has(part, name) for name in names):
                    return path
            level = [
                ((*path, attribute), inner)
                for path, part in level
                for attribute in self._all(part)
                for inner in sorted(self.parts(part, attribute), key=lambda one: one.__qualname__)
            ]
        return None

    def named(self, architecture: str) -> type | None:
        """Give the class that the registry has under a name."""
        return self._registered(architecture)

    @property
    def inner(self) -> tuple[str, ...]:
        """Give the architectures of the text model in a wrapper."""
        return self._inner

    def _all(self, cls: type) -> dict[str, list[Assigned]]:
        if cls not in self._assigned:
            found: dict[str, list[Assigned]] = defaultdict(list)
            made = True  # whether this ancestor's `__init__` runs at all
            for ancestor in _searched(cls):
                node = class_node(ancestor)
                for name, assigned in _assignments(ancestor, node) if node else ():
                    if made or assigned.function.name != "__init__":
                        found[name].append(assigned)
                made = made and (node is None or _goes_on(node))
            self._assigned[cls] = dict(found)
        return self._assigned[cls]


class _Scope:
    """A method of `owner`, run for an instance of `cls`: evaluates expressions to classes."""

    def __init__(self, blueprint: Blueprint, cls: type, owner: type, function: Any, depth: int = 0) -> None:
        self._blueprint, self._cls, self._owner, self._function = blueprint, cls, owner, function
        self._depth = depth
        self._module = vars(sys.modules[owner.__module__])

    def instances(self, value: ast.expr, position: int | None = None) -> set[type]:
        """Give the classes of what an expression gives."""
        if self._depth > DEEPEST:
            return set()
        if isinstance(value, ast.IfExp):
            return self.instances(value.body, position) | self.instances(value.orelse, position)
        if isinstance(value, ast.BoolOp):
            return set().union(*(self.instances(one, position) for one in value.values))
        if isinstance(value, ast.Name):
            return set().union(*(self._deeper().instances(one, position) for one in self._local(value.id)))
        if isinstance(value, ast.Call):
            return self._called(value, position)
        return set()

    def _called(self, call: ast.Call, position: int | None) -> set[type]:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name == REGISTERED:
            return self._by_name(call)
        if name == LAYERS and position in {2, None} and len(call.args) > 1:
            return self._made_by(call.args[1])
        if name == "ModuleList" and call.args:
            return self._listed(call.args[0])
        found: set[type] = set()
        for made in self.callables(call.func):
            found |= {made} if isinstance(made, type) else self._returned(made)
        return found

    def callables(self, value: ast.expr) -> list[Any]:
        """Give the classes and methods that an expression in the place of a callee may be."""
        if self._depth > DEEPEST:
            return []
        if isinstance(value, ast.IfExp):
            return [*self.callables(value.body), *self.callables(value.orelse)]
        if isinstance(value, ast.BoolOp):
            return [made for one in value.values for made in self.callables(one)]
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            holder = self._cls if value.value.id == _first(self._function) else self._module.get(value.value.id)
            made = getattr(holder, value.attr, None) if holder is not None else None
            return [] if made is None else [made]
        if isinstance(value, ast.Name):
            local = [made for one in self._local(value.id) for made in self._deeper().callables(one)]
            passed = [made for scope, one in self._passed(value.id) for made in scope.callables(one)]
            made = None if local or passed or value.id in _parameters(self._function) else self._module.get(value.id)
            return [*passed, *local] if made is None else [made]
        return []

    def _by_name(self, call: ast.Call) -> set[type]:
        names = list(self._blueprint.inner)
        for keyword in call.keywords:
            if keyword.arg == "architectures" and isinstance(keyword.value, ast.List):
                names = [str(one.value) for one in keyword.value.elts if isinstance(one, ast.Constant)]
        return {cls for name in names if (cls := self._blueprint.named(name)) is not None}

    def _made_by(self, maker: ast.expr) -> set[type]:
        if isinstance(maker, ast.Lambda):
            return self.instances(maker.body)
        return {made for made in self.callables(maker) if isinstance(made, type)}

    def _listed(self, elements: ast.expr) -> set[type]:
        if isinstance(elements, ast.ListComp | ast.GeneratorExp):
            return self.instances(elements.elt)
        if isinstance(elements, ast.List):
            return set().union(*(self.instances(one) for one in elements.elts))
        return set()

    def _returned(self, method: Any) -> set[type]:
        """Give the classes that a method of the class itself returns."""
        name = getattr(method, "__name__", "")
        for owner in _searched(self._cls):
            node = class_node(owner)
            for function in node.body if node else ():
                if isinstance(function, Function) and function.name == name:
                    scope = _Scope(self._blueprint, self._cls, owner, function, self._depth + 1)
                    returns = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value]
                    return set().union(*(scope.instances(value) for value in returns))
        return set()

    def _local(self, name: str) -> Iterator[ast.expr]:
        """Give what is assigned to a local name, and a parameter's default."""
        for node in ast.walk(self._function):
            if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
                yield node.value
        arguments = self._function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        yield from (default for argument, default in pairs if argument.arg == name and default is not None)

    def _passed(self, name: str) -> Iterator[tuple[_Scope, ast.expr]]:
        """Give what subclasses pass for a parameter in `super().__init__(name=…)`."""
        for owner in _searched(self._cls):
            if owner is self._owner:
                return
            node = class_node(owner)
            for function in node.body if node else ():
                if isinstance(function, Function) and function.name == self._function.name:
                    scope = _Scope(self._blueprint, self._cls, owner, function, self._depth + 1)
                    yield from ((scope, value) for value in _super_keywords(function, name))

    def _deeper(self) -> _Scope:
        return _Scope(self._blueprint, self._cls, self._owner, self._function, self._depth + 1)


def class_node(cls: type) -> ast.ClassDef | None:
    """Give the syntax tree of a class; None where it has no source."""
    try:
        body: list[ast.stmt] = _tree(inspect.getsourcefile(cls) or "").body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = None
    for name in cls.__qualname__.split("."):
        node = next((one for one in body if isinstance(one, ast.ClassDef) and one.name == name), None)
        if node is None:
            return None
        body = node.body
    return node


_trees: dict[str, ast.Module] = {}


def _tree(file: str) -> ast.Module:
    if file not in _trees:
        _trees[file] = ast.parse(Path(file).read_bytes())
    return _trees[file]


def _searched(cls: type) -> Iterator[type]:
    return (one for one in cls.__mro__ if one.__module__.split(".")[0] not in FOREIGN)


def _assignments(owner: type, node: ast.ClassDef) -> Iterator[tuple[str, Assigned]]:
    for function in node.body:
        if not isinstance(function, Function) or not _first(function):
            continue
        for one in ast.walk(function):
            if isinstance(one, ast.Assign):
                for target in one.targets:
                    yield from _targets(owner, function, target, one.value)
            elif isinstance(one, ast.AnnAssign) and one.value is not None:
                yield from _targets(owner, function, one.target, one.value)


def _targets(owner: type, function: Any, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, Assigned]]:
    if isinstance(target, ast.Tuple):
        for position, one in enumerate(target.elts):
            if _is_own(one, function):
                yield one.attr, Assigned(owner, function, value, position)  # type: ignore[attr-defined]
    elif _is_own(target, function):
        yield target.attr, Assigned(owner, function, value, None)  # type: ignore[attr-defined]


def _is_own(target: ast.expr, function: Any) -> bool:
    return (
        isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == _first(function)
    )


def _first(function: Any) -> str:
    arguments = [*function.args.posonlyargs, *function.args.args]
    return str(arguments[0].arg) if arguments else ""


def _parameters(function: Any) -> set[str]:
    return {one.arg for one in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}


def _goes_on(node: ast.ClassDef) -> bool:
    """Say whether making an instance runs the next class's `__init__` too."""
    for function in node.body:
        if isinstance(function, Function) and function.name == "__init__":
            return any(
                isinstance(one, ast.Attribute) and one.attr == "__init__" and _is_plain_super(one.value)
                for one in ast.walk(function)
            )
    return True


def _is_plain_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super" and not node.args


def _super_keywords(function: ast.AST, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
            yield from (keyword.value for keyword in node.keywords if keyword.arg == name)
