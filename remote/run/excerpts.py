"""The lines of a run's log that tell of its failures: around each deciding line, and the end. Bounded."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from remote import files
from remote.run import logfile
from remote.schema import Excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remote.paths import Run

LOOKED_AT = 32 * 1024 * 1024  # bytes of the log's end
FAILURES = 5
BEFORE, AFTER = 24, 12  # lines around a deciding one
REACH = 64 * 1024  # bytes around it in which those lines are looked for
TAIL = 40  # lines of the end
LONGEST = 600  # characters of a line


def of_run(run: Run, events: Sequence[dict[str, Any]], *, tail: bool) -> tuple[Excerpt, ...]:
    """Give the surroundings of the deciding line of the last failed attempts, oldest first; and the log's end."""
    data, start = _end(run)
    found: list[Excerpt] = []
    before = len(data)
    for event in reversed([event for event in events if event.get("event") == "attempt-ended"]):
        line, number = event.get("root_line"), event.get("attempt")
        if len(found) < FAILURES and isinstance(line, str) and line.strip():
            place = data.rfind(line.strip().encode(), 0, before)
            if place >= 0:
                found.append(_around(data, place, start, f"attempt {number}: {event.get('cause') or 'unknown'}"))
                before = place
    found.reverse()
    if tail and data:
        lines = _lines(_from_a_line(data, len(data) - REACH))[-TAIL:]
        found.append(Excerpt(why="the end of the log", lines=tuple(lines), offset=start + max(0, len(data) - REACH)))
    return tuple(found)


def _end(run: Run) -> tuple[bytes, int]:
    """Give the kept bytes of the log's end, and the offset of the first."""
    with contextlib.suppress(OSError), files.opened(run.log) as file:
        size = file.seek(0, 2)
        start = max(logfile.start(run), size - LOOKED_AT)
        file.seek(start)
        data = file.read(LOOKED_AT)
        first = data.find(b"\n") + 1 if start else 0  # what was cut off may have taken half a line with it
        return data[first:], start + first
    return b"", 0


def _around(data: bytes, place: int, start: int, why: str) -> Excerpt:
    tail = data[place : place + REACH]
    marked, _, following = tail.partition(b"\n")
    if place + REACH < len(data):  # its last line was cut: half a line may be half a secret
        following = following.rpartition(b"\n")[0]
    before = _lines(_from_a_line(data[:place], place - REACH) + marked)
    after = _lines(following)[:AFTER]
    kept = before[-BEFORE - 1 :]
    return Excerpt(why=why, lines=(*kept, *after), offset=start + place, marked=len(kept) - 1)


def _from_a_line(data: bytes, at: int) -> bytes:
    """Give what follows a place, from the next line on: half a line may be half a secret. No line so long is shown."""
    if at <= 0 or data[at - 1 : at] == b"\n":
        return data[max(0, at) :]
    return data[at:].partition(b"\n")[2]


def _lines(data: bytes) -> list[str]:
    """Give lines for people: a progress bar's last state alone, no line longer than can be read."""
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in data.decode(errors="replace").split("\n")]
    return [line if len(line) <= LONGEST else line[:LONGEST] + "…" for line in shown if line.strip()]
