"""What this process and those that it started have printed on standard error, where that is a file."""

from __future__ import annotations

import os
import stat

STDERR = 2
MOST = 4 * 2**20


class Said:
    """Reads back from where it was made on; gives nothing where standard error cannot be read."""

    def __init__(self) -> None:
        found = os.fstat(STDERR)
        self._from = found.st_size if stat.S_ISREG(found.st_mode) else None

    def text(self) -> str:
        """Give what was printed since."""
        if self._from is None:
            return ""
        size = os.fstat(STDERR).st_size
        start = max(self._from, size - MOST)
        try:
            return os.pread(STDERR, size - start, start).decode("utf-8", "replace")
        except OSError:  # open for writing alone
            return ""
