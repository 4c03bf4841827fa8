"""What a run asks of the file systems that it writes to, tried out in a folder of its own by the run's own functions.

Network and FUSE file systems differ in what they leave out. What would end a run at its first sample, after the load,
is told here before it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote import files, locks
from remote.paths import Output
from remote.run import room

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = ".prudent-gate-trial-"
MAKING = "making and removing folders"
FIRST, SECOND = b"first", b"second, and longer"


class Untrue(OSError):
    """The file system took what we gave it and gives back something else."""


def lacks(folder: Path) -> str:
    """Say what cannot be done in a folder that takes files; nothing when all can, or when there is no room to try."""
    what = MAKING
    try:
        with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folder) as name:
            for what, act in TRIALS:  # noqa: B007 - told when one fails
                act(Path(name))
            what = MAKING
    except OSError as error:
        return "" if error.errno in room.FULL else f"{what} ({error.strerror or error})"
    return ""


def _lock(folder: Path) -> None:
    output = Output(PurePosixPath(folder))
    taken = [lock for lock in (locks.take(output), locks.take(output)) if lock is not None]
    for lock in taken:
        os.close(lock)
    if len(taken) != 1:
        raise Untrue("two hold the same lock")


def _replace(folder: Path) -> None:
    place = folder / "data_0.pt"
    place.write_bytes(FIRST)
    files.replace(place, SECOND, mode=0o644)
    if place.read_bytes() != SECOND:
        raise Untrue("a replaced file has not its new content")


def _append(folder: Path) -> None:
    place = folder / "manifest.jsonl"
    place.write_bytes(FIRST + b"\n")
    files.append_line(place, SECOND)
    if place.read_bytes() != FIRST + b"\n" + SECOND + b"\n":
        raise Untrue("a file that was appended to has not all its lines")


def _rename(folder: Path) -> None:
    (folder / "data_1.pt").write_bytes(FIRST)
    (folder / "data_1.pt").replace(folder / "data_1.pt.extra")


TRIALS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("locking a file (flock)", _lock),
    ("replacing a file whole (write, fsync, rename)", _replace),
    ("appending to a file", _append),
    ("renaming a file", _rename),
)
