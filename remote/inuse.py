"""What must not be removed just now: bundles that somebody works with, and a workdir in which a run is being started.

The lock is on the workdir itself: `launch` shares it from the look at its bundle until the run's folder names that
bundle, `clean` has it alone while it decides and moves things away. A verb marks its bundle as used, so that what was
pushed or gated a moment ago, by whomever, is not old.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from remote.host import processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOOK = 0.05


class Busy(Exception):
    """Somebody else has the workdir."""


@contextlib.contextmanager
def shared(workdir: str | os.PathLike[str]) -> Iterator[None]:
    """Keep `clean` away while the block runs; a file system without locks has no such care."""
    try:
        descriptor = os.open(workdir, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:  # nothing is there that could be removed
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(descriptor: int, patience: float) -> Iterator[None]:
    """Hold a workdir against launches; raises Busy, or OSError where the file system has no locks."""
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise Busy from None
            time.sleep(LOOK)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def mark(entry: str) -> None:
    """Note that the bundle with this entry is used now; a payload that is no bundle has nothing to note."""
    bundle = Path(entry).resolve().parents[2]
    with contextlib.suppress(OSError):
        if (bundle / "bundle.json").is_file():
            os.utime(bundle)


def by_processes(bundles: Iterable[str]) -> set[str]:
    """Give the bundles (by id) that stand in the command line or environment of a living process, however spelled."""
    names = {f"/bundles/{bundle}": bundle for bundle in bundles}
    found: set[str] = set()
    for process in processes.everybody():
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                text = (processes.PROC / str(process.pid) / name).read_bytes()
                found |= {bundle for path, bundle in names.items() if path.encode() in text}
    return found
