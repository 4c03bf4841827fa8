"""What the static checks see, before it is a finding: its subject, the edit that mends it, why it may be no news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.schema import Finding

if TYPE_CHECKING:
    import ast

    from local.static.fixes import Edit
    from local.static.sources import Module

ERROR = "error"
WARNING = "warning"
NOTE = "note"


@dataclass(frozen=True, slots=True)
class Checked:
    """A module under check and its package-relative file."""

    file: str
    module: Module

    def columns(self, node: ast.expr) -> tuple[int, int | None]:
        """Give where a node starts and ends on its first line, in characters; no end where it goes on."""
        line = self.module.text.splitlines()[node.lineno - 1].encode()
        start = len(line[: node.col_offset].decode())
        return start, len(line[: node.end_col_offset].decode()) if node.end_lineno == node.lineno else None


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing seen at a place. `subject` is the argument, attribute, field or name that it is about."""

    rule: str
    message: str
    file: str
    line: int = 1
    column: int = 0
    end_column: int | None = None
    subject: str = ""
    callee: str | None = None
    signature: str | None = None
    severity: str = ERROR
    edit: Edit | None = None
    dismissed: str | None = None


def finding(problem: Problem, text: str | None, fix: str | None) -> Finding:
    """Give the finding of a problem, with the line of source that it is about."""
    lines = (text or "").splitlines()
    line = lines[problem.line - 1] if 0 < problem.line <= len(lines) else None
    dismissed = f" (no finding: {problem.dismissed})" if problem.dismissed else ""
    return Finding(
        rule=problem.rule,
        message=problem.message + dismissed,
        file=problem.file,
        line=problem.line,
        column=problem.column if line is not None else None,
        end_column=problem.end_column if line is not None else None,
        text=line,
        callee=problem.callee,
        signature=problem.signature,
        fix=fix,
        severity=NOTE if problem.dismissed else problem.severity,
    )
