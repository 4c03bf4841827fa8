"""How many values a layer's `forward` gives, as its source tells."""

from __future__ import annotations

import ast

from remote.model.blueprint import class_node


def arity(layer: type) -> int | None:
    """Give the number of values that every `return` of `forward` gives; None where they differ or cannot be told."""
    for cls in layer.__mro__:
        node = class_node(cls) if "forward" in vars(cls) else None
        for function in node.body if node else ():
            if isinstance(function, ast.FunctionDef) and function.name == "forward":
                counts = {_count(function, value) for value in _returned(function)}
                return counts.pop() if len(counts) == 1 else None
    return None


def _returned(function: ast.FunctionDef) -> list[ast.expr | None]:
    """Give the returned expressions of a function itself, not those of functions inside it."""
    found: list[ast.expr | None] = []
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return):
            found.append(node.value)
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))
    return found


def _count(function: ast.FunctionDef, value: ast.expr | None) -> int | None:
    if isinstance(value, ast.Tuple) and not any(isinstance(one, ast.Starred) for one in value.elts):
        return len(value.elts)
    if isinstance(value, ast.BinOp):
        return 1  # a sum of tensors, as layers without a separate residual give it
    if isinstance(value, ast.Name):
        return _count_of_name(function, value.id)
    return None


def _count_of_name(function: ast.FunctionDef, name: str) -> int | None:
    """Tell a name that holds one tensor (a sum, or one of several unpacked) from one that may hold anything."""
    values = [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets)
    ]
    if values and isinstance(values[-1], ast.BinOp):
        return 1
    return len(values[-1].elts) if values and isinstance(values[-1], ast.Tuple) else None
