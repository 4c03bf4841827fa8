"""Caches that do not grow for ever: what nobody has used for a month goes, and the oldest of too many.

Any number of `fab`s share a cache. What one of them uses is touched by it, so that no other takes it away; what goes is
renamed first, so that nobody finds half of it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

DAY = 24 * 3600.0
UNUSED = 30 * DAY
LEAST = 4  # that stay, however old
MOST = 24
SCRATCH = (".gone-", ".unpack-")  # what a process that was killed has left


def touch(entry: Path) -> None:
    """Note that an entry is in use now."""
    with contextlib.suppress(OSError):
        os.utime(entry)


def prune(folder: Path, entries: Collection[Path], *, now: float | None = None) -> tuple[Path, ...]:
    """Remove what may go of the entries of a folder; gives what went."""
    now = time.time() if now is None else now
    aged = sorted(((_used(entry), entry) for entry in entries), key=lambda each: each[0], reverse=True)
    spare = [
        entry
        for place, (used, entry) in enumerate(aged)
        if place >= LEAST and now - used > (UNUSED if place < MOST else DAY)
    ]
    gone = tuple(entry for entry in spare if _remove(folder, entry))
    _sweep(folder, now)
    return gone


def keep_newest(count: int, written: Path) -> None:
    """Remove the oldest files beside one that was just written, which stays: the clock may have been set back since."""
    others = [entry for entry in written.parent.iterdir() if entry != written]
    for old in sorted(others, key=_used, reverse=True)[count - 1 :]:
        old.unlink(missing_ok=True)


def _used(entry: Path) -> float:
    with contextlib.suppress(OSError):
        return entry.stat().st_mtime
    return 0.0


def _remove(folder: Path, entry: Path) -> bool:
    """Take an entry away whole; False where another process was faster, or may not."""
    try:
        scratch = tempfile.mkdtemp(prefix=SCRATCH[0], dir=folder)
        try:
            entry.rename(f"{scratch}/{entry.name}")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError:
        return False
    return True


def _sweep(folder: Path, now: float) -> None:
    with contextlib.suppress(OSError):
        for left in folder.iterdir():
            if left.name.startswith(SCRATCH) and now - _used(left) > DAY:
                shutil.rmtree(left, ignore_errors=True)
