"""What the rehearsal says of warnings that only it can judge: cleared where it passes, else standing. Pure.

The static level warns of defaults and answers that changed under code that still binds. Whether the change matters no
source tells. A rehearsal that passes has run that very code: the warning becomes a note.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from local.levels.decide import FAIL, SKIP, WARN, status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.schema import Check, Finding

RULES = ("changed-default", "changed-return")
CLEARED = "cleared by the rehearsal, which has run it: "
CONFIRMED = "confirmed by the rehearsal: "


def weigh(before: Sequence[Check], rehearsal: Check) -> tuple[tuple[Check, ...], Check]:
    """Give the checks before a rehearsal and the rehearsal itself, with what it says of their warnings."""
    if rehearsal.status == SKIP:
        return tuple(before), rehearsal
    passed = rehearsal.status != FAIL
    cleared = [found for check in before if passed for found in check.findings if _open(found)]
    confirmed = [found for check in before for found in check.findings if _open(found) and _named(found, rehearsal)]
    told = {"clears": [_short(found) for found in cleared], "confirms": [_short(found) for found in confirmed]}
    facts = rehearsal.facts | {name: found for name, found in told.items() if found}
    checks = tuple(_weighed(check, cleared, confirmed) for check in before)
    return checks, replace(rehearsal, facts=facts)


def _open(finding: Finding) -> bool:
    return finding.rule in RULES and finding.severity == "warning"


def _named(finding: Finding, rehearsal: Check) -> bool:
    """Tell whether an error of the rehearsal stands at the line of a warning, or has its values from there."""
    return any(
        error.severity == "error"
        and error.file == finding.file
        and (error.line == finding.line or f"line {finding.line} has `" in error.message)
        for error in rehearsal.findings
    )


def _weighed(check: Check, cleared: Sequence[Finding], confirmed: Sequence[Finding]) -> Check:
    findings = tuple(
        replace(found, severity="note", message=f"{CLEARED}{found.message}")
        if found in cleared
        else replace(found, message=f"{CONFIRMED}{found.message}")
        if found in confirmed
        else found
        for found in check.findings
    )
    if findings == check.findings:
        return check
    return replace(check, findings=findings, status=status(findings) if check.status == WARN else check.status)


def _short(finding: Finding) -> str:
    """Name what changed: the callee, and where it was relied upon."""
    return f"{finding.callee} ({finding.file}:{finding.line})"
