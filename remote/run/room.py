"""Room on the file systems of a run: whether there is any, and a ballast that is kept to write the end with."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from remote.paths import Run

FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST = 64 << 10  # bytes: with less than this nothing of use can be written
BALLAST = 256 << 10  # exit.json, state.json, the last events


def full(places: Iterable[str | os.PathLike[str]]) -> str | None:
    """Say which of these places has no room left, None when all have some."""
    for place in places:
        with contextlib.suppress(OSError):
            found = os.statvfs(place)
            if found.f_blocks and found.f_bavail * found.f_frsize < LEAST:  # some file systems count no blocks
                return f"no space left on the file system of {place} ({found.f_bavail * found.f_frsize} bytes free)"
            if found.f_files and not found.f_favail:
                return f"no space left on the file system of {place} (no inode is free)"
    return None


def load_ballast(run: Run) -> None:
    """Take the room; raises OSError when there is none."""
    descriptor = os.open(run.ballast, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, BALLAST)
    finally:
        os.close(descriptor)


def drop_ballast(run: Run) -> None:
    """Give the room back."""
    with contextlib.suppress(OSError):
        Path(run.ballast).unlink(missing_ok=True)
