"""Functions that a module binds to a model, by `types.MethodType` or `__get__`, and what they read on `self`."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local.static.calls import scopes
from local.static.sources import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from local.static.sources import Function, Module


@dataclass(frozen=True, slots=True)
class Binding:
    """A function bound to an object that comes from a model; `given` is what the module itself puts on that object."""

    function: Function
    given: frozenset[str]
    uses: Mapping[str, tuple[ast.Attribute, ...]]


def bindings(module: Module) -> tuple[Binding, ...]:
    """Give the functions of a module that it binds to a model."""
    functions = {s.name: s for s in module.tree.body if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef)}
    found = []
    for _, _, around in scopes(module.tree):
        for node in ast.walk(around):
            bound = _bound(node)
            if bound is not None and bound[0] in functions and _from_model(around, bound[1], set()):
                function = functions[bound[0]]
                given = frozenset(_set_on(around, bound[1])) | _set_by(function)
                found.append(Binding(function, given, {k: tuple(v) for k, v in _uses(function).items()}))
    return tuple(found)


def _bound(node: ast.AST) -> tuple[str, str] | None:
    """Give function and object of `types.MethodType(function, object)` or `function.__get__(object)`."""
    match node:
        case ast.Call(func=func, args=[ast.Name(id=function), target]) if (dotted(func) or "").endswith("MethodType"):
            return function, ast.unparse(target)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=function), attr="__get__"), args=[target, *_]):
            return function, ast.unparse(target)
    return None


def _from_model(around: Function, name: str, seen: set[str]) -> bool:
    """Whether an object comes, through assignments of the function, from something called a model."""
    if "model_runner" in name or "get_model" in name:
        return True
    if name in seen:
        return False
    return any(
        _from_model(around, step, {*seen, name})
        for node in ast.walk(around)
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == name for t in node.targets)
        for step in {ast.unparse(node.value), *(n.id for n in ast.walk(node.value) if isinstance(n, ast.Name))}
    )


def _set_on(around: Function, name: str) -> Iterator[str]:
    for node in ast.walk(around):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == name:
            yield node.attr
        match node:
            case ast.Call(func=ast.Name(id="setattr"), args=[target, ast.Constant(value=str(attribute)), _]) if (
                ast.unparse(target) == name
            ):
                yield attribute


def _uses(function: Function) -> dict[str, list[ast.Attribute]]:
    """Give the attributes read on a function's first parameter, less those that it asks for with `hasattr`."""
    if not function.args.args:
        return {}
    me = function.args.args[0].arg
    asked = {
        argument.value
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and dotted(node.func) in {"hasattr", "getattr"}
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }
    found: dict[str, list[ast.Attribute]] = {}
    for node in ast.walk(function):
        read = isinstance(node, ast.Attribute) and dotted(node.value) == me and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Attribute) and read and node.attr not in asked:
            found.setdefault(node.attr, []).append(node)
    return found


def _set_by(function: Function) -> frozenset[str]:
    me = function.args.args[0].arg if function.args.args else ""
    return frozenset(
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node.value) == me
    )
