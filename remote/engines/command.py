"""Engine `command`: the user's own script under our supervision; progress from a pattern on its lines of log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LONGEST = 4000  # characters of a line that the pattern is tried on


@dataclass(frozen=True, slots=True)
class LineProgress:
    """Turns lines of log into progress events: named groups `done` and `total`, or the first group alone."""

    pattern: re.Pattern[str]

    @classmethod
    def of(cls, pattern: str | None) -> LineProgress | None:
        """Compile the job's pattern; raises ValueError saying what is wrong with it."""
        if pattern is None:
            return None
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"progress: not a regular expression ({error})") from error
        if not compiled.groups:
            raise ValueError("progress: needs a group, (?P<done>…) or the first one, that matches the samples done")
        return cls(compiled)

    def event(self, line: bytes) -> dict[str, Any] | None:
        """Give the progress event of a line, None when it tells none."""
        match = self.pattern.search(line[:LONGEST].decode("utf-8", "replace"))
        if match is None:
            return None
        named = match.groupdict()
        done = _number(named["done"] if "done" in named else match.group(1))
        total = _number(named.get("total"))
        if done is None:
            return None
        return {"event": "progress", "done": done, **({} if total is None else {"total": total})}


def _number(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 15 else None  # noqa: PLR2004 - no sane count is longer
