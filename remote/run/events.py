"""The events of a run: numbered whole lines in `events.jsonl`, and the tail of what an attempt tells.

A reader may count on whole lines in ascending numbers; a line torn by a crash or a full disk is closed and passed over.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHUNK = 1 << 20
LONGEST = 1 << 20  # a line longer than this is no event


def parse(line: bytes) -> dict[str, Any] | None:
    """Give the event of a line, None when it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


class EventLog:
    """Appends to `events.jsonl`. What cannot be written now (full disk) is kept and written later, in order."""

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float]) -> None:
        self._path = Path(path)
        self._clock = clock
        self._next = _last_number(self._path) + 1
        self._waiting: list[bytes] = []

    def add(self, event: str, attempt: int, fields: Mapping[str, Any]) -> None:
        """Number an event and append it; number, time and name are ours whatever the fields say."""
        own = {"n": self._next, "time": round(self._clock(), 3), "attempt": attempt, "event": event}
        self._next += 1
        rest = {name: value for name, value in fields.items() if name not in own}
        text = json.dumps({**own, **rest}, ensure_ascii=False, separators=(",", ":"))
        self._waiting.append(text.encode("utf-8", "backslashreplace"))  # half a character is an escape, in JSON too
        self.flush()

    def flush(self) -> bool:
        """Write what waits; False when the disk refuses."""
        while self._waiting:
            try:
                files.append_line(self._path, self._waiting[0], durable=False)
            except OSError:
                return False
            self._waiting.pop(0)
        return True


class Tail:
    """Reads the whole lines that were appended to a file since the last look."""

    def __init__(
        self, path: str | os.PathLike[str], *, offset: int = 0, ends: re.Pattern[bytes] = re.compile(rb"\n")
    ) -> None:
        self._path = Path(path)
        self._ends = ends
        self.offset = offset
        self._rest = b""

    def lines(self) -> list[bytes]:
        """Give the new whole lines, without their ends; a file that is not there yet has none."""
        found: list[bytes] = []
        with contextlib.suppress(FileNotFoundError, files.NotPlain), files.opened(self._path) as file:
            file.seek(self.offset)
            while data := file.read(CHUNK):
                self.offset += len(data)
                *whole, self._rest = self._ends.split(self._rest + data)
                found.extend(whole)
                if len(self._rest) > LONGEST:
                    self._rest = b""
        return found


def _last_number(path: Path) -> int:
    """Give the highest number in the file's end; a torn or garbled last line does not hide those before it."""
    try:
        with files.opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - CHUNK))
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return 0
    numbers = (event.get("n") for event in map(parse, lines) if event is not None)
    return max((number for number in numbers if type(number) is int), default=0)
