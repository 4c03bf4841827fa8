"""Processes as /proc tells them: who belongs to a run, and how to end them all and see that they are gone.

A process is named by its pid *and* its start time, so a pid that was given out again is never mistaken. Two marks say
that a process belongs to a run: the run folder in the environment it was started with, or the run's log as its
standard output or error. The second is needed because programs that set their own title (vLLM's workers do)
overwrite the memory that /proc/<pid>/environ shows. What a marked process started belongs to the run as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remote.paths import RUN_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from remote.paths import Run

PROC = Path("/proc")
GONE = ("Z", "X", "x")  # states of processes that have ended already
QUIET_SCANS = 2  # so many scans must find nobody: a process may fork between two looks


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """One process; `started` is in clock ticks since boot, so no clock change moves it."""

    pid: int
    started: int
    parent: int
    group: int
    session: int
    state: str
    name: str


def mark(run: Run) -> str:
    """Give the value of RUN_ENV in the environment of a run's processes: the folder, however it was spelled."""
    return os.path.realpath(run.root)


def parse_stat(text: str) -> Process:
    """Read /proc/<pid>/stat; the name may hold blanks and parentheses. Raises ValueError."""
    head, opened, tail = text.partition("(")
    name, closed, rest = tail.rpartition(")")
    fields = rest.split()
    if not (opened and closed) or len(fields) < 20:  # noqa: PLR2004 - field 22 of proc(5) is the start time
        raise ValueError(f"not a stat line: {text!r}")
    return Process(int(head), int(fields[19]), int(fields[1]), int(fields[2]), int(fields[3]), fields[0], name)


def carries(environment: bytes, run: str) -> bool:
    """Tell whether a process with this environment was started for the run."""
    return f"{RUN_ENV}={run}".encode() in environment.split(b"\0")


def descendants(processes: Iterable[Process], roots: Collection[int]) -> set[int]:
    """Give the pids of what the roots started, directly or not, the roots themselves left out."""
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        new = set(children.get(waiting.pop(), ())) - found
        found |= new
        waiting.extend(new)
    return found - set(roots)


def boot_id() -> str:
    """Give the name of this boot of the host."""
    with contextlib.suppress(OSError):
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return ""


def out_of_memory_kills() -> int:
    """Count the processes that the kernel has killed for lack of memory since boot; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in (PROC / "vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def read(pid: int) -> Process | None:
    """Give a process, None when there is none."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def alive(pid: int, started: float) -> bool:
    """Tell whether exactly this process still lives."""
    process = read(pid)
    return process is not None and process.started == started and process.state not in GONE


def everybody() -> list[Process]:
    """Give all living processes that this one may see."""
    found = (read(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdigit())
    return [process for process in found if process is not None and process.state not in GONE]


def of_run(run: Run) -> list[Process]:
    """Give the living processes that belong to a run, its supervisor left out."""
    processes = everybody()
    name, log = mark(run), _stat(Path(run.log))
    roots = {process.pid for process in processes if _marked(process.pid, name, log)}
    pids = (roots | descendants(processes, roots)) - _own_line(processes)
    return [process for process in processes if process.pid in pids]


def started_by(pid: int) -> list[Process]:
    """Give the living descendants of a process; of a subreaper these are all that it ever started."""
    processes = everybody()
    pids = descendants(processes, {pid})
    return [process for process in processes if process.pid in pids]


def send(process: Process, number: int) -> None:
    """Send a signal to exactly this process, or to nobody."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError as error:
            if isinstance(error, ProcessLookupError):
                return
            if alive(process.pid, process.started):  # an old kernel: the next best thing
                os.kill(process.pid, number)
            return
        try:
            if alive(process.pid, process.started):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def end(
    find: Callable[[], list[Process]],
    *,
    grace: float,
    tick: Callable[[], None] = lambda: None,
    killing: float = 5.0,
    pause: float = 0.05,
) -> tuple[int, ...]:
    """End everybody that `find` gives, politely for `grace` seconds; gives the pids of those that live still."""
    until = time.monotonic() + grace
    asked: set[tuple[int, int]] = set()
    while time.monotonic() < until and (found := find()):
        living = {(process.pid, process.started) for process in found}
        if not asked & living:  # what these start while they tidy up is let be until they are gone
            asked |= living
            for process in found:
                send(process, signal.SIGTERM)
        tick()
        time.sleep(pause)
    return _kill(find, tick=tick, until=time.monotonic() + killing, pause=pause)


def _kill(
    find: Callable[[], list[Process]], *, tick: Callable[[], None], until: float, pause: float
) -> tuple[int, ...]:
    quiet = 0
    while quiet < QUIET_SCANS:
        found = find()
        quiet = 0 if found else quiet + 1
        for process in found:
            send(process, signal.SIGKILL)
        tick()
        if found and time.monotonic() > until:
            return tuple(sorted(process.pid for process in found))
        if found:
            time.sleep(pause)
    return ()


def _marked(pid: int, name: str, log: os.stat_result | None) -> bool:
    folder = PROC / str(pid)
    with contextlib.suppress(OSError):
        if carries((folder / "environ").read_bytes(), name):
            return True
    return log is not None and any(_writes(folder, number, log) for number in (1, 2))


def _writes(folder: Path, number: int, log: os.stat_result) -> bool:
    """Tell whether a descriptor of a process is open for writing on the log."""
    opened = _stat(folder / "fd" / str(number))
    if opened is None or not os.path.samestat(opened, log):
        return False
    with contextlib.suppress(OSError):
        for line in (folder / "fdinfo" / str(number)).read_text().splitlines():
            if line.startswith("flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


def _stat(path: Path) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return path.stat()
    return None


def _own_line(processes: Iterable[Process]) -> set[int]:
    """Give this process and those that it descends from: never to be ended by itself."""
    parents = {process.pid: process.parent for process in processes}
    line, pid = set(), os.getpid()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line
