"""Seconds of processor time that a command takes on both sides of a loopback host, whatever else the machine does.

Whoever enters has a control group of its own, with all that it starts, and the kernel counts for it: sessions and what
outlives them included. Needs Linux with control groups of version 2 that this user may make; else nothing is counted.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def counted() -> Iterator[Callable[[], float | None]]:
    """Count what this process and all that it starts within this block use; gives the seconds so far, or None."""
    parent = _own()
    if parent is None:
        yield lambda: None
        return
    group = parent / f"prudent-gate-bench-{os.getpid()}"
    try:
        group.mkdir()
        _enter(group)
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield lambda: None
        return
    try:
        yield lambda: _seconds(group)
    finally:
        with contextlib.suppress(OSError):  # what still runs in it keeps it
            _enter(parent)
            group.rmdir()


def _own() -> Path | None:
    """Give the folder of this process's group in the hierarchy of version 2."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    root = next((mount[1] for mount in mounts if mount[2] == "cgroup2"), None)
    group = next((line[3:] for line in groups if line.startswith("0::")), None)
    return Path(root, group.lstrip("/")) if root and group else None


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")


def _seconds(group: Path) -> float | None:
    try:
        lines = (group / "cpu.stat").read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) / 1e6 for line in lines if line.startswith("usage_usec ")), None)
    except (OSError, ValueError, IndexError):
        return None
