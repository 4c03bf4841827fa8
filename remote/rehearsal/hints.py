"""Where the values of a line that failed come from: the last assignment of each of its names before it."""

from __future__ import annotations

import ast

MOST = 2


def origins(source: str, line: int) -> list[tuple[int, str]]:
    """Give lines, with their text, that have assigned what this line uses, in the same function and before it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    function = _around(tree, line)
    if function is None:
        return []
    used = _used(function, line)
    last: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno < line:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id in used:
                    last[target.id] = max(last.get(target.id, 0), node.lineno)
    text = source.splitlines()
    return [(found, text[found - 1].strip()) for found in sorted(set(last.values()))[-MOST:]]


def _around(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Give the innermost function that the line is in."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _used(function: ast.AST, line: int) -> set[str]:
    return {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.lineno == line
    }
