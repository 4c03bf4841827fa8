"""Shared memory that a run's processes have made under a name, and what of it they leave behind when they are killed.

A segment counts as the run's when one of its processes has it mapped and it was not there before the run. It is
removed only when nobody maps it any more. What was seen is kept in the run's folder: who ends a run after its
supervisor was killed finds the processes gone, but not what they had made.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from remote import files, wire
from remote.host import processes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from remote.paths import Run

FOLDER = "/dev/shm"  # noqa: S108 - the place itself
OF_JOBS = re.compile(r"(?:psm_|torch_|sem\.|nccl-|cuda\.shm\.)[^/ ]*")
_MAPPED = re.compile(rb"^\S+ \S+ \S+ \S+ (\d+)\s+" + FOLDER.encode() + rb"/", re.MULTILINE)


class Segment(NamedTuple):
    """One file in /dev/shm: a name that is given out again has another inode."""

    name: str
    inode: int


def mapped(pids: Iterable[int]) -> set[Segment]:
    """Give the segments that these processes have mapped, by inode.

    The C library makes a semaphore under another name, and who has made it has that name mapped for ever.
    """
    inodes: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes |= set(map(int, _MAPPED.findall((processes.PROC / str(pid) / "maps").read_bytes())))
    return {segment for segment in present() if segment.inode in inodes and OF_JOBS.fullmatch(segment.name)}


def of_processes(pids: Iterable[int]) -> set[str]:
    """Give the paths of the segments that these processes have mapped."""
    return {f"{FOLDER}/{segment.name}" for segment in mapped(pids)}


def of_session(leader: int) -> set[str]:
    """Give the paths of what a session's processes have mapped: workers make semaphores of their own."""
    return of_processes([process.pid for process in processes.everybody() if process.session == leader])


def present() -> set[Segment]:
    """Give all segments that are there."""
    found = set()
    with contextlib.suppress(OSError), os.scandir(FOLDER) as entries:
        found = {Segment(entry.name, entry.inode()) for entry in entries}
    return found


def remove(segments: Collection[Segment]) -> tuple[str, ...]:
    """Remove what nobody has mapped any more; gives the names that went."""
    there = set(segments) & present()
    if not there:
        return ()
    used = mapped(process.pid for process in processes.everybody())
    gone = []
    for name, inode in sorted(there - used):
        path = Path(FOLDER) / name
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_ino == inode and found.st_uid == os.getuid():
                path.unlink()
                gone.append(name)
    return tuple(gone)


class Account(NamedTuple):
    """What was there before the run, and what its processes were seen to have made."""

    before: frozenset[Segment]
    made: frozenset[Segment]

    def with_mapped(self, pids: Iterable[int]) -> Account:
        """Add what these processes have mapped."""
        return Account(self.before, (self.made | mapped(pids)) - self.before)


def note(run: Run, account: Account) -> None:
    """Keep the account in the run's folder; a full disk only makes us forgetful."""
    data = {"boot": processes.boot_id(), "before": sorted(account.before), "made": sorted(account.made)}
    with contextlib.suppress(OSError):
        files.replace(run.shared, json.dumps(data).encode())


def noted(run: Run) -> Account | None:
    """Give the account that was kept, None where there is none of this boot."""
    try:
        data = wire.parse(files.read(run.shared))
        if data["boot"] != processes.boot_id():
            return None
        kept = [frozenset(Segment(str(name), int(inode)) for name, inode in data[key]) for key in ("before", "made")]
        return Account(kept[0], kept[1])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def add(run: Run, pids: Collection[int]) -> None:
    """Add what these processes of a run have mapped to the account that its supervisor has left."""
    account = noted(run)
    if account is not None and pids:
        note(run, account.with_mapped(pids))


def sweep(run: Run) -> tuple[str, ...]:
    """Remove what a run without processes has left behind, and forget it."""
    account = noted(run)
    gone = remove({segment for segment in account.made if OF_JOBS.fullmatch(segment.name)}) if account else ()
    with contextlib.suppress(OSError):
        Path(run.shared).unlink(missing_ok=True)
    return gone
