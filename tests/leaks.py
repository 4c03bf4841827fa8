"""What a test may leave behind: nothing. Threads, child processes and descriptors are counted before and after.

What fixtures of a wider scope than one test start belongs to them (`owned`), with all that descends from it. A
process that has left our family is found by the test's own temporary folder: it works there or was started from it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PATIENCE = 5.0
COUNTED = ("socket:", "pipe:", "/")
NOT_COUNTED = ("/dev/", "/proc/", "/sys/", "/usr/", "/etc/")


@dataclass(frozen=True)
class Thing:
    """A thread, a descriptor or a process; `label` is for the reader, who a thing is does not depend on it."""

    kind: str
    number: int
    since: float | str
    label: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.number} ({self.label})"


owned: set[Thing] = set()


def things() -> set[Thing]:
    """Give everything that a test could leave behind, as it stands now."""
    return {*_threads(), *_descriptors(), *_children()}


def left_behind(before: set[Thing], folder: Path | None) -> set[Thing]:
    """Give what is new since `before`, once it has had a fair time to go."""
    until = time.monotonic() + PATIENCE
    while True:
        found = {thing for thing in things() - before - owned if not _lives_below_owned(thing)}
        found |= _strays(folder) if folder is not None else set()
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.02)


def _threads() -> set[Thing]:
    return {Thing("thread", thread.ident or 0, thread.name, thread.name) for thread in threading.enumerate()}


def _descriptors() -> set[Thing]:
    found = set()
    for name in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(name.readlink())
            if target.startswith(COUNTED) and not target.startswith(NOT_COUNTED):
                found.add(Thing("descriptor", int(name.name), target, target))
    return found


def _children() -> set[Thing]:
    return set(_processes(psutil.Process().children(recursive=True)))


def _processes(processes: Iterable[psutil.Process]) -> Iterator[Thing]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            label = " ".join(process.cmdline())[:200] or process.name()
            yield Thing("process", process.pid, process.create_time(), label)


def _lives_below_owned(thing: Thing) -> bool:
    if thing.kind != "process":
        return False
    pids = {other.number for other in owned if other.kind == "process"}
    with contextlib.suppress(psutil.Error):
        return any(parent.pid in pids for parent in psutil.Process(thing.number).parents())
    return True  # gone meanwhile


def _strays(folder: Path) -> set[Thing]:
    """Give processes, whoever their parent is by now, that work in the folder or were started from it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                words = [*process.cmdline(), process.cwd()]
                if any(str(folder) in word for word in words):
                    found.append(process)
    return set(_processes(found))
