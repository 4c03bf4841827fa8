"""Keep the bytecode cache sound: take half-written files out before a process of the job reads them.

A file system that fills up, or `ulimit -f`, takes a part of a file and says so by the count alone. Until 3.12.8 and
3.13.1 Python does not look at it (CPython issue 126606) and puts half a `.pyc` in place; from then on every process
that imports the module ends with `EOFError: marshal data too short`, and room on the disk does not mend it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote.paths import Workdir

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = 16  # bytes before the code: magic number, flags, and what the source was (PEP 552)
SLACK = 2.0  # seconds that the times of a coarse file system may be off


def home(workdir: str) -> PurePosixPath:
    """Give the folder that a job's processes keep their bytecode in (PYTHONPYCACHEPREFIX)."""
    return Workdir(PurePosixPath(workdir)).cache / "pycache"


def drop_damaged(workdir: str) -> int:
    """Remove what this Python could not load; looks only where something changed since the last time."""
    folder = Path(home(workdir))
    since = _looked(folder.with_name("pycache.looked"))
    dropped = 0
    for path in _changed(folder, since):
        if not _whole(path):
            with contextlib.suppress(OSError):  # gone already, or read-only: then its import says so
                path.unlink()
                dropped += 1
    return dropped


def _looked(stamp: Path) -> float:
    """Give the time of the last look, by the file system's own clock, and begin a new one.

    Where that clock was set back since, what changed since is older than the last look: all is looked at then.
    """
    try:
        before = stamp.stat().st_mtime
    except OSError:
        before = 0.0
    with contextlib.suppress(OSError):  # no cache yet, or no room: the next look sees everything again
        stamp.touch(mode=0o600)
        return before if before <= stamp.stat().st_mtime else 0.0
    return before


def _changed(folder: Path, since: float) -> Iterator[Path]:
    """Give the bytecode files of the folders that got or lost a file; a file comes into place by a rename."""
    for place, _, names in os.walk(folder):
        with contextlib.suppress(OSError):
            if os.stat(place).st_mtime < since - SLACK:  # noqa: PTH116 - a thousand times in an instant
                continue
        yield from (Path(place, name) for name in names if name.endswith(".pyc"))


def _whole(path: Path) -> bool:
    """Tell whether a file can be loaded; what another Python wrote, this one cannot tell and will not read."""
    try:
        data = path.read_bytes()
    except OSError:
        return True
    if len(data) >= HEADER and not data.startswith(importlib.util.MAGIC_NUMBER):
        return True
    try:
        marshal.loads(memoryview(data)[HEADER:])  # noqa: S302 - written by the job's own Python, which would run it
    except (EOFError, ValueError, TypeError):
        return False
    return True
