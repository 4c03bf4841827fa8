"""From the log of a failed attempt to what failed: a pure function of the text, the exit code and a few facts.

The earliest root line decides; lines at warning level only when no other line does; cascades only when there is no
root at all; advice never, nor what an interpreter says of its own end. Without any known line the exit code speaks, and
what was said last is quoted. Both sides may import this.
"""

from __future__ import annotations

import dataclasses
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remote.failure_noise import LONGEST, WARNING, closing, quotable, undecorated
from remote.failure_table import ADVICE, ROWS, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remote.schema import Pattern

KINDS = ("transient", "fatal", "node-fatal")  # what a row may say; what no row knows is unknown
SAYS_TRANSIENT = 75  # EX_TEMPFAIL: the attempt knows by itself that trying again may help
KILLED = 137
AFTER = re.compile(r"[Rr]etry[- ][Aa]fter:?\s+(\d{1,6})\b")
LONGEST_WAIT = 900.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What failed: `kind` is transient, fatal, node-fatal or unknown; `budget` caps the retries (None: the job's)."""

    kind: str
    cause: str
    root_line: str | None = None
    advice: str = ""
    budget: int | None = None
    then: str | None = None
    mended: bool = False  # something was changed since: trying again repeats nothing, and counts for nothing
    wait: float = 0.0  # seconds that whoever refused us asked us to stay away


def classify(
    log: str,
    code: int,
    *,
    progressed: bool = False,
    reaped: bool = False,
    out_of_memory: bool = False,
    rows: Sequence[Row] = ROWS,
) -> Failure:
    """Say why an attempt failed, from its part of the log and its exit code (128 + number when a signal ended it).

    `progressed`: it had done samples; `reaped`: leftovers of an earlier attempt had been ended before it;
    `out_of_memory`: the kernel killed for memory while it ran.
    """
    if code == KILLED and out_of_memory:
        return _host_memory()
    lines = re.split(r"[\r\n]+", log)
    closes = closing(lines)
    if (found := _decisive(lines, closes, progressed=progressed, rows=rows)) is not None:
        row, line = found
        if out_of_memory and row.role == "cascade":  # a worker that the kernel killed has no words of its own
            return dataclasses.replace(_host_memory(), root_line=line)
        kind = row.if_reaped if reaped and row.if_reaped else row.kind
        return Failure(
            kind=kind, cause=row.cause, root_line=line, advice=row.advice, budget=row.budget, then=row.then,
            wait=asked_to_wait(line) if kind == "transient" else 0.0,
        )  # fmt: skip
    return dataclasses.replace(_by_code(code, empty=not log.strip()), root_line=quotable(lines, closes))


def asked_to_wait(line: str) -> float:
    """Give the seconds of a "Retry after 42 seconds", at most a quarter of an hour."""
    match = AFTER.search(line)
    return min(float(match[1]), LONGEST_WAIT) if match else 0.0


def with_patterns(patterns: Iterable[Pattern], rows: Sequence[Row] = ROWS) -> tuple[Row, ...]:
    """Give the rows with the job's own before ours; raises ValueError naming the pattern that is none."""
    return (*(_own(number, pattern) for number, pattern in enumerate(patterns)), *rows)


def _own(number: int, pattern: Pattern) -> Row:
    if pattern.kind not in KINDS:
        raise ValueError(f"retry.patterns[{number}].kind: expected one of {', '.join(KINDS)}, found {pattern.kind!r}")
    try:
        compiled = re.compile(pattern.match)
    except re.error as error:
        raise ValueError(f"retry.patterns[{number}].match: not a regular expression ({error})") from error
    advice = pattern.advice or "The job's own pattern knows this line."
    return Row(pattern=compiled, kind=pattern.kind, cause=pattern.cause, advice=advice, own=True)


def _decisive(
    lines: Sequence[str], closes: Sequence[bool], *, progressed: bool, rows: Sequence[Row]
) -> tuple[Row, str] | None:
    """Give the row and line that decide: the earliest of the best rank."""
    best: tuple[int, Row, str] | None = None
    best_rank = -1 if any(row.own for row in rows) else 0
    for raw, closed in zip(lines, closes, strict=True):
        found = _match(raw[:LONGEST], closed=closed, progressed=progressed, rows=rows)
        if found is None:
            continue
        rank = _rank(found, raw)
        if best is None or rank < best[0]:
            best = rank, found, raw[:LONGEST].strip()
        if rank == best_rank:
            break
    return None if best is None else best[1:]


def _match(line: str, *, closed: bool, progressed: bool, rows: Sequence[Row]) -> Row | None:
    """Give the row that a line decides for; of what is said of an end, only a text that names a root counts."""
    if not line.strip():
        return None
    advice = ADVICE.search(line)
    said = line[: advice.start()] if advice else line  # what stands before the advice may be the failure itself
    words = said[undecorated(said) :]
    for row in rows:
        if (row.at_start and progressed) or (closed and row.role != "root" and not row.own):
            continue
        if row.pattern.search(line if row.own else words if row.role == "general" else said):
            return row
    return None


def _rank(row: Row, line: str) -> int:
    if row.own:
        return -1  # the user knows his job: his words decide wherever they stand
    if row.role == "cascade":
        return 2
    return 1 if WARNING.search(line) else 0


def _host_memory() -> Failure:
    return Failure(
        kind="fatal",
        cause="host-out-of-memory",
        advice="The kernel killed for lack of memory while the job ran: give it more, or ask for less at once.",
    )


def _by_code(code: int, *, empty: bool) -> Failure:
    if code == SAYS_TRANSIENT:
        return Failure(kind="transient", cause="temporary", advice="The attempt itself says that it may pass.")
    if code in (126, 127):
        return Failure(kind="fatal", cause="command-not-found", advice="The job's command cannot be run on the host.")
    if code == 128 + signal.SIGBUS:
        return Failure(kind="unknown", cause="sigbus", advice="Often a /dev/shm that is too small.")
    if code > 128:  # noqa: PLR2004 - the shell's way of telling a signal
        return Failure(
            kind="unknown", cause=_signal_name(code - 128), advice="Somebody or something ended the process."
        )
    if empty:
        return Failure(kind="transient", cause="no-output", advice="The attempt ended without a word.", budget=1)
    return Failure(kind="unknown", cause="unknown", advice="Nothing in the log is known; its end says what happened.")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.lower()
    except ValueError:
        return f"signal-{number}"
