"""A log as lines for people: decoded as it comes, progress bars collapsed to their last state, controls taken out."""

from __future__ import annotations

import codecs

from local.text import clean

LONGEST = 16 * 1024  # characters after which a line without end is shown in parts


class LogText:
    """Takes bytes in any pieces, gives whole lines; `pending` is what the line without end shows now."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes) -> list[str]:
        """Give the lines that are whole by now."""
        *lines, self._held = (self._held + self._decoder.decode(data)).split("\n")
        found = [_shown(line) for line in lines]
        if "\r" in self._held[:-1]:
            # What stands before the last return is overwritten; the return itself may yet be the end of a line.
            self._held = self._held[self._held.rindex("\r", 0, -1) + 1 :]
        while len(self._held) > LONGEST:
            found.append(clean(self._held[:LONGEST]))
            self._held = self._held[LONGEST:]
        return found

    def finish(self) -> list[str]:
        """Give what is left at the end of the log."""
        rest, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return [_shown(rest)] if rest else []

    @property
    def pending(self) -> str:
        """Give the state of a progress bar that is being drawn."""
        return _shown(self._held)


def _shown(line: str) -> str:
    """Give what a terminal would show of a line: what comes after the last carriage return that is not its end."""
    return clean(line.rstrip("\r").rpartition("\r")[2])
