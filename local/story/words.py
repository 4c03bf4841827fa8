"""Moments, amounts and places as the page says them. Pure."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Any

from local.signatures import brief
from local.story.blocks import Cell, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from remote.schema import Check, Finding

TONES = {
    "pass": "good", "done": "good", "applies": "good", "upstream": "info", "warn": "warn", "fail": "bad",
    "failed": "bad", "lost": "bad", "error": "bad", "broken": "bad", "missing": "bad", "warning": "warn",
    "note": "info", "stopped": "warn", "unknown": "warn", "transient": "warn", "fatal": "bad", "node-fatal": "bad",
}  # fmt: skip
DASH = "–"


def moment(when: float | None) -> str:
    """Give a moment in UTC; what cannot be one is a dash."""
    try:
        return DASH if when is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(when))
    except (OverflowError, ValueError, OSError):
        return DASH


def rate(value: float | None, unit: str) -> str:
    """Give a rate with as many digits as it deserves."""
    if value is None:
        return DASH
    return f"{value:,.0f} {unit}/s" if value >= 10 else f"{value:.2g} {unit}/s"  # noqa: PLR2004 - two digits


def cell(text: object, tone: str | None = None) -> Cell:
    """Give a cell; without a tone, the one that such a word has."""
    said = DASH if text is None or text == "" else str(text)
    return Cell(text=said, tone=TONES.get(said, "") if tone is None else tone)


def fault(finding: Finding) -> Fault:
    """Give a finding as a block."""
    place = finding.file or ""
    if finding.file and finding.line is not None:
        place += f":{finding.line}" + (f":{finding.column + 1}" if finding.column is not None else "")
    found = brief(finding.signature) if finding.signature else ""
    said = tuple((label, text) for label, text in (("callee", finding.callee or ""), ("found", found)) if text)
    return Fault(
        severity=finding.severity,
        rule=finding.rule,
        message=finding.message,
        place=place,
        source=textwrap.dedent(finding.text or "").rstrip("\n"),
        facts=said,
        fix=tuple(finding.fix.rstrip("\n").split("\n")) if finding.fix else (),
    )


def table(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Give a table among facts, an empty one where it is none."""
    told = facts.get(name)
    return told if isinstance(told, dict) else {}


def check_named(checks: tuple[Check, ...], name: str) -> Mapping[str, Any]:
    """Give the facts of a level, none where it was not looked at."""
    return next((check.facts for check in checks if check.id == name), {})
