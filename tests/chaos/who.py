"""Who runs on the pretended host, told by words and environment."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from remote.host import processes


def said(pid: int) -> list[str]:
    """Give a process's words; none of one that is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    return []


def words(pid: int, entry: str) -> set[str]:
    """Give a process's words; one that starts with `entry` counts as `entry`."""
    return {entry if word.startswith(entry) else word for word in said(pid)}


def at_home(home: Path, disk: str) -> list[str]:
    """Give who still runs on the pretended host: started with its home, or from its disk."""
    found = []
    for process in processes.everybody():
        spoken = said(process.pid)
        if process.pid == os.getpid() or any("pytest" in word or "sshd" in word for word in spoken):
            continue
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            if f"HOME={home}".encode() in environment or any(word.startswith(disk) for word in spoken):
                found.append(" ".join(spoken))
    return found
