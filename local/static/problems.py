"""What the static checks find, before it is a finding: with its subject, the edit that mends it and why it may be no news."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.schema import Finding

if TYPE_CHECKING:
    from local.static.fixes import Edit

ERROR = "error"
WARNING = "warning"
NOTE = "note"


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
