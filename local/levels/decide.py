"""From what a level saw to its check. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from remote.schema import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from remote.schema import Finding

PASS, FAIL, WARN, SKIP = "pass", "fail", "warn", "skip"


def check(level: str, findings: Iterable[Finding], facts: Mapping[str, Any] | None = None) -> Check:
    """Give the check of a level: an error fails it, anything less warns."""
    found = tuple(findings)
    return Check(id=level, status=status(found), facts=dict(facts or {}), findings=found)


def status(findings: Iterable[Finding]) -> str:
    """Give the status that findings amount to."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return FAIL
    return WARN if "warning" in severities else PASS
