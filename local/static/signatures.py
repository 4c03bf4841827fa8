"""Signatures as the sources write them: parameters, what a configuration class defaults to, what a call gives back."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local.static.sources import Definition, Function, Sources

_DEFAULT_KEYS = ("default", "default_factory")


def render(sources: Sources, definition: Definition) -> str:
    """Give `Name(parameters) -> result` of a function, a class's constructor, or the fields of a dataclass."""
    node = definition.node
    if not isinstance(node, ast.ClassDef):
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{definition.name}({_parameters(node)}){result}"
    init = sources.member(definition, "__init__")
    if init is not None and not isinstance(init.node, ast.ClassDef):
        return f"{definition.name}({_parameters(init.node)})"
    parts = [name if default is None else f"{name}={default}" for name, default in fields(sources, definition).items()]
    return f"{definition.name}({', '.join(parts)})"


def fields(sources: Sources, definition: Definition) -> dict[str, str | None]:
    """Give the fields of a dataclass-like class with their defaults as text; None where a value is required."""
    found: dict[str, str | None] = {}
    lineage, _ = sources.lineage(definition)
    for cls in reversed(lineage):
        for statement in cls.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if "ClassVar" in ast.unparse(statement.annotation) or _uninitialised(statement.value):
                    continue
                found[statement.target.id] = _default(statement.value)
    return found


def result(definition: Definition) -> str | None:
    """Give the annotation of what a function gives back, in today's spelling of unions."""
    node = definition.node
    if isinstance(node, ast.ClassDef) or node.returns is None:
        return None
    return ast.unparse(_modern(node.returns))


def required(function: Function) -> tuple[str, ...]:
    """Give the parameters that a caller must pass, without `self`."""
    positional = [*function.args.posonlyargs, *function.args.args]
    names = [a.arg for a in positional[: len(positional) - len(function.args.defaults)]]
    names += [a.arg for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is None]
    return tuple(name for name in names if name not in {"self", "cls"})


def names(function: Function) -> frozenset[str]:
    """Give the names by which arguments can be passed."""
    return frozenset(argument.arg for argument in [*function.args.args, *function.args.kwonlyargs])


def _parameters(function: Function) -> str:
    text = ast.unparse(function.args)
    return text.removeprefix("self, ").removeprefix("self")


def _default(value: ast.expr | None) -> str | None:
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg in _DEFAULT_KEYS:
                return _made(keyword.value) if keyword.arg == "default_factory" else ast.unparse(keyword.value)
        name = ast.unparse(value.func).rpartition(".")[2]
        if name in {"field", "Field"}:
            return ast.unparse(value.args[0]) if value.args and not _is_ellipsis(value.args[0]) else None
    return ast.unparse(value) if value is not None else None


def _made(factory: ast.expr) -> str:
    return ast.unparse(factory.body) if isinstance(factory, ast.Lambda) else f"{ast.unparse(factory)}()"


def _uninitialised(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and any(
        k.arg == "init" and isinstance(k.value, ast.Constant) and k.value.value is False for k in value.keywords
    )


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


class _Modern(ast.NodeTransformer):
    """`Optional[X]` and `Union[X, Y]` as `X | None` and `X | Y`: a change of spelling is no change of shape."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        name = ast.unparse(node.value).rpartition(".")[2]
        if name == "Optional":
            return ast.BinOp(node.slice, ast.BitOr(), ast.Constant(None))
        if name == "Union" and isinstance(node.slice, ast.Tuple) and node.slice.elts:
            union, *rest = node.slice.elts
            for option in rest:
                union = ast.BinOp(union, ast.BitOr(), option)
            return union
        return node


def _modern(node: ast.expr) -> ast.expr:
    text = ast.parse(ast.unparse(node), mode="eval")  # a copy: the tree belongs to its module
    if isinstance(text.body, ast.Constant) and isinstance(text.body.value, str):
        text = ast.parse(text.body.value, mode="eval")
    return ast.fix_missing_locations(_Modern().visit(text)).body  # type: ignore[no-any-return]
