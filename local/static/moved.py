"""Where a name went: an import that finds nothing is held against the rest of its package, and written anew.

Text search, not parsing: a package has a thousand files, and a definition at the top of a module starts its line.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from local.static.fixes import Edit, span
from local.static.sources import origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.static.sources import Module
    from local.static.tree import Project

_WIDTH = 88  # a statement longer than this is written over several lines


def homes(project: Project, module: str, names: Sequence[str]) -> dict[str, str]:
    """Give the one module of a package that defines each name; names with none or several are left out."""
    top = project.path(module.partition(".")[0])
    if top is None or top.stem != "__init__" or not names:
        return {}
    defining = re.compile(rf"^(?:class|def|async def)\s+({'|'.join(map(re.escape, names))})\b", re.MULTILINE)
    found: dict[str, set[str]] = {}
    for path in top.parent.rglob("*.py"):
        for name in set(defining.findall(path.read_text("utf-8", errors="replace"))):
            dotted = project.relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            found.setdefault(name, set()).add(dotted)
    return {name: modules.pop() for name, modules in found.items() if len(modules) == 1}


def statement_at(module: Module, line: int) -> ast.ImportFrom | None:
    """Give the `from … import …` that covers a line."""
    return next(
        (
            node
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ),
        None,
    )


def lost(project: Project, module: Module, statement: ast.ImportFrom, said: str) -> tuple[str, ...]:
    """Give the names of a statement that a report is about: the one it quotes, or all where the module is gone."""
    names = [alias.name for alias in statement.names]
    gone = project.path(origin(statement, module.package)) is None
    return tuple(names) if gone else tuple(name for name in names if f"`{name}`" in said)


def rewrite(module: Module, statement: ast.ImportFrom, went: Mapping[str, str]) -> Edit:
    """Import the names that moved from where they are now; what else the statement imports stays in it."""
    start, end = span(module.text, statement)
    indent = module.text[module.text.rfind("\n", 0, start) + 1 : start]
    by_module: dict[str, list[ast.alias]] = {}
    for alias in statement.names:
        here = "." * statement.level + (statement.module or "")
        by_module.setdefault(went.get(alias.name, here), []).append(alias)
    lines = [_statement(name, aliases, indent) for name, aliases in by_module.items()]
    return Edit(start, end, f"\n{indent}".join(lines))


def _statement(module: str, aliases: Sequence[ast.alias], indent: str) -> str:
    parts = [ast.unparse(alias) for alias in aliases]
    line = f"from {module} import {', '.join(parts)}"
    if len(indent + line) <= _WIDTH:
        return line
    inner = "".join(f"{indent}    {part},\n" for part in parts)
    return f"from {module} import (\n{inner}{indent})"
