"""Checks, findings and verdicts on a terminal, the way a good compiler shows them.

Every text of a host goes through `clean` and into rich's `Text`: it is never read as markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from local.levels.decide import FAIL, SKIP, WARN
from local.signatures import brief
from local.telling import of_check, parameters
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from remote.schema import Check, Finding, Verdict

MARKS = {FAIL: ("✗", "bold red"), WARN: ("!", "bold yellow"), SKIP: ("-", "dim")}
PASSED = ("✓", "bold green")
SEVERITIES = {"error": "bold red", "warning": "bold yellow"}
GUTTER = "blue"


def print_check(console: Console, host: str, check: Check) -> None:
    """Print one level as it is decided: a line, the parameter lists that it saw just now, its findings."""
    indent = cell_len(_prefix(host).plain)
    rows = list(_laid(console, _headline(host, check)))
    seen = () if check.facts.get("cached") else parameters(check.facts)
    for name, signature in seen:
        rows += _laid(console, Text(clean(name), "cyan").append(clean(brief(signature)), "default"), indent + 4, hang=2)
    for finding in check.findings:
        rows += _finding(console, finding, indent)
    _emit(console, rows)


def print_finding(console: Console, host: str, finding: Finding) -> None:
    """Print one finding: what, where, the source with its mark, what was found, how to mend it."""
    _emit(console, list(_finding(console, finding, cell_len(_prefix(host).plain))))


def print_verdict(console: Console, host: str, verdict: Verdict) -> None:
    """Print the gate's decision, and what changed since it last said yes."""
    errors = sum(finding.severity == "error" for check in verdict.checks for finding in check.findings)
    line = _prefix(host)
    if verdict.verdict == "pass":
        line.append("PASS", "bold green").append(f" up to level {clean(verdict.level)}")
    else:
        line.append(clean(verdict.verdict).upper(), "bold red").append(f" at level {clean(verdict.level)}: ")
        line.append(f"{errors} error{'' if errors == 1 else 's'}")
    line.append(f", {sum(check.seconds for check in verdict.checks if not check.facts.get('cached')):.1f} s")
    if verdict.bundle:
        line.append(f"  bundle {clean(verdict.bundle)[:12]}", "dim")
    rows = list(_laid(console, line))
    if verdict.changed:
        said = Text(f"since the last pass: {clean(', '.join(verdict.changed))}", "dim")
        rows += _laid(console, said, cell_len(_prefix(host).plain), hang=2)
    _emit(console, rows)


def _headline(host: str, check: Check) -> Text:
    mark, style = MARKS.get(check.status, PASSED)
    line = _prefix(host).append(mark, style).append(f" {clean(check.id):<10}")
    return line.append(_seconds(check), "dim").append(f"  {clean(of_check(check))}")


def _finding(console: Console, finding: Finding, indent: int) -> Iterator[Text]:
    severity = clean(finding.severity)
    head = Text().append(severity, SEVERITIES.get(severity, "bold")).append(f"[{clean(finding.rule)}]", "bold")
    yield from _laid(console, head.append(f": {clean(finding.message)}", "bold"), indent, hang=2)
    width = len(str(finding.line)) if finding.line is not None else 1
    for line, whole in _body(finding, width):
        yield from _laid(console, line, indent, hang=width + 3, whole=whole)
    yield Text()


def _body(finding: Finding, width: int) -> Iterator[tuple[Text, bool]]:
    """Give the lines below the head; sources and fixes stay whole, or their marks and signs would be lost."""
    if finding.file is not None:
        yield Text(" " * width).append("--> ", GUTTER).append(clean(_place(finding))), True
    if finding.text is not None:
        yield from ((line, True) for line in _source(finding, width))
    found = brief(finding.signature) if finding.signature else None
    for label, said in (("callee", finding.callee), ("found", found)):
        if said:
            yield _note(width, label).append(clean(said)), False
    if finding.fix:
        yield from ((line, True) for line in _fix(finding.fix, width))


def _place(finding: Finding) -> str:
    """Give `file:line:column` as far as it is known; columns are told from 1, as editors count."""
    parts = [finding.file or ""]
    if finding.line is not None:
        parts.append(str(finding.line))
        if finding.column is not None:
            parts.append(str(finding.column + 1))
    return ":".join(parts)


def _source(finding: Finding, width: int) -> Iterator[Text]:
    text = finding.text or ""
    yield _gutter("", width)
    for number, line in enumerate(text.split("\n")):
        shown = "" if finding.line is None else str(finding.line + number)
        yield _gutter(shown, width).append(clean(line))
        if number == 0 and finding.column is not None:
            before, marked = _span(line, finding.column, finding.end_column)
            style = SEVERITIES.get(finding.severity, "bold")
            yield _gutter("", width).append(" " * before).append("^" * marked, style)
    yield _gutter("", width)


def _span(line: str, column: int, end: int | None) -> tuple[int, int]:
    """Give the cells before the mark and those under it, for the line as it is shown."""
    column = max(0, min(column, len(line)))
    last = len(line) if end is None or end <= column else min(end, len(line))
    before = cell_len(clean(line[:column]))
    return before, max(1, cell_len(clean(line[:last])) - before)


def _fix(fix: str, width: int) -> Iterator[Text]:
    lines = clean(fix, lines=True).rstrip("\n").split("\n")
    styles = {"+": "green", "-": "red", "@": "cyan"}
    if len(lines) == 1:
        yield _note(width, "fix").append(lines[0], styles.get(lines[0][:1], "default"))
        return
    yield _note(width, "fix")
    for line in lines:
        yield Text(" " * (width + 3)).append(line, styles.get(line[:1], "default"))


def _gutter(number: str, width: int) -> Text:
    return Text().append(f"{number:>{width}} | ", GUTTER)


def _note(width: int, label: str) -> Text:
    return Text(" " * width).append(" = ", GUTTER).append(f"{label}: ", "bold")


def _prefix(host: str) -> Text:
    return Text().append(f"{clean(host)}  ", "bold magenta") if host else Text()


def _seconds(check: Check) -> str:
    return "  cached" if check.facts.get("cached") else f"{check.seconds:6.1f} s"


def _laid(console: Console, text: Text, indent: int = 0, *, hang: int = 4, whole: bool = False) -> Iterator[Text]:
    """Lay a line out at its indentation; what does not fit goes below, further in, unless it is to stay `whole`."""
    room = max(20, console.width - indent)
    fits = whole or cell_len(text.plain) <= room
    for number, row in enumerate([text] if fits else text.wrap(console, room - hang)):
        row.rstrip()
        yield Text(" " * (indent + (hang if number else 0))).append_text(row)


def _emit(console: Console, rows: Sequence[Text]) -> None:
    """Print all rows at once: hosts work side by side, and their lines must not mix."""
    console.print(Text("\n").join(rows), soft_wrap=True, highlight=False)
