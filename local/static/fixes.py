"""Edits that mend a problem, and the unified diffs they make. Pure: text in, text out; nothing is applied unasked."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` of a file's text replaced."""

    start: int
    end: int
    text: str


def drop_keyword(text: str, call: ast.Call, name: str) -> Edit | None:
    """Remove a keyword argument, with its line where it stands alone on one."""
    keyword = next((k for k in call.keywords if k.arg == name), None)
    if keyword is None:
        return None
    start, end = span(text, keyword)
    after = re.compile(r"[ \t]*,?[ \t]*").match(text, end)
    end = after.end() if after else end
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip() and text[end : end + 1] == "\n":
        return Edit(line_start, end + 1, "")
    if "," not in text[span(text, keyword)[1] : end]:  # the last one: the comma before goes with it
        before = re.search(r",\s*\Z", text[:start])
        return Edit(before.start() if before else start, end, "")
    return Edit(start, end, "")


def pass_keyword(text: str, call: ast.Call, name: str, value: str, *, dropped: Collection[str] = ()) -> Edit | None:
    """Add a keyword argument after the last that is not dropped too, in the way that the call is written."""
    if not call.keywords and not call.args:
        close = span(text, call)[1] - 1
        return Edit(close, close, f"{name}={value}")
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    staying = [node for node in given if not (isinstance(node, ast.keyword) and node.arg in dropped)]
    if not staying:
        return None
    last = max(staying, key=lambda node: (node.lineno, node.col_offset))
    start, end = span(text, last)
    line_start = text.rfind("\n", 0, start) + 1
    indent = text[line_start:start]
    if indent.strip():
        return Edit(end, end, f", {name}={value}")
    return Edit(end, end, f",\n{indent}{name}={value}")


def rename_attribute(text: str, node: ast.Attribute, name: str) -> Edit:
    """Write another attribute's name."""
    end = span(text, node)[1]
    return Edit(end - len(node.attr), end, name)


def constant_for(tree: ast.Module, function: str, parameter: str) -> str | None:
    """Give what is in scope under a name: a parameter of the function around, or the module's one such constant."""
    from local.static.calls import scopes  # noqa: PLC0415 - calls builds on sources, which this pure room does not need

    for name, _, node in scopes(tree):
        if name == function and parameter in {a.arg for a in [*node.args.args, *node.args.kwonlyargs]}:
            return parameter
    wanted = parameter.upper()
    constants = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and (target.id == wanted or target.id.endswith(f"_{wanted}"))
    }
    return constants.pop() if len(constants) == 1 else None


def is_value(text: str) -> bool:
    """Whether a default's text is a plain value other than None: it means the same wherever it is written."""
    try:
        return ast.literal_eval(text) is not None
    except (ValueError, SyntaxError):
        return False


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Give the text with all edits made; of edits that overlap, the first stays."""
    reached = -1
    kept = []
    for edit in sorted(set(edits), key=lambda e: (e.start, e.end)):
        if edit.start >= reached:
            kept.append(edit)
            reached = max(edit.end, edit.start)
    for edit in reversed(kept):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def diff(file: str, before: str, after: str) -> str:
    """Give a unified diff as the patch series writes them."""
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
    )


def patch(edits: Mapping[str, tuple[str, Iterable[Edit]]], *, subject: str, why: str, applies_to: str) -> str:
    """Give a patch file of the series: header, why, one diff per file (`file` → its text and its edits)."""
    body = "".join(diff(file, text, apply(text, changes)) for file, (text, changes) in sorted(edits.items()))
    return f"Subject: {subject}\nApplies-To: {applies_to}\n\n{why}\n---\n{body}" if body else ""


def span(text: str, node: ast.expr | ast.keyword | ast.stmt) -> tuple[int, int]:
    """Give a node's characters: `ast` counts columns in UTF-8 bytes."""
    lines = text.splitlines(keepends=True)

    def offset(line: int, column: int) -> int:
        before = lines[line - 1].encode()[:column].decode()
        return sum(len(each) for each in lines[: line - 1]) + len(before)

    return offset(node.lineno, node.col_offset), offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
