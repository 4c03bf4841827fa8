"""A run as its folder tells it, however damaged: the one place that reads job.json, state.json and exit.json."""

from __future__ import annotations

import calendar
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from remote import files, locks, wire
from remote.host import memory_kills, processes
from remote.paths import Output, Run, Workdir
from remote.schema import Exit, LaunchRequest, State

if TYPE_CHECKING:
    import os

T = TypeVar("T")
RUN_ID = re.compile(r"(?!0000)\d{4}(0[1-9]|1[0-2])\d{2}-\d{6}-[0-9a-f]{4}")
STAMP = "%Y%m%d-%H%M%S"
DIGITS = 0xFFFF  # the largest number behind the time
NEVER = "its supervisor never came up: its launch was ended before the run had begun"
STARTING = 120.0  # seconds that a folder without state.json is "starting" where the lock cannot tell
EMPTY = 10.0  # and one that has not even a job.json


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the folder says now: `faults` tells of files that cannot be understood; `lost` why nobody owns the run."""

    run: Run
    request: LaunchRequest | None
    state: State | None
    exit: Exit | None
    lost: str | None
    faults: tuple[str, ...] = ()

    @property
    def active(self) -> bool:
        """Tell whether a supervisor owns the run now, as far as can be known."""
        return self.exit is None and self.lost is None


def folders(workdir: str) -> list[Run]:
    """Give all runs of a workdir, newest first."""
    root = Path(Workdir(PurePosixPath(workdir)).runs)
    try:
        names = [entry.name for entry in root.iterdir() if RUN_ID.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Workdir(PurePosixPath(workdir)).run(name) for name in sorted(names, reverse=True)]


def next_id(newest: str | None, now: float) -> str:
    """Give an id for a run that starts now: its time and four digits. Newer ids sort later, whatever the clock does.

    Runs follow each other within a second, and clocks are set back: "the newest run" must still be the last one begun.
    """
    stamp = time.strftime(STAMP, time.gmtime(now))
    if newest is None or stamp > newest[:-5]:
        return f"{stamp}-{secrets.token_hex(2)}"
    number = int(newest[-4:], 16) + 1 + secrets.randbelow(256)
    if number > DIGITS:
        return next_id(newest, begun(newest) + 1)
    return f"{newest[:-5]}-{number:04x}"


def begun(run: str) -> float:
    """Give the time in an id, in seconds since the epoch; whoever made a folder of that form, there is one."""
    parts = (run[:4], run[4:6], run[6:8], run[9:11], run[11:13], run[13:15])
    return float(calendar.timegm(tuple(map(int, parts))))  # counts on past the end of a month or a day


def find(workdir: str, run: str) -> Run | None:
    """Give a run by its id, None when there is none; an id that is no id finds nothing."""
    folder = Workdir(PurePosixPath(workdir)).run(run)
    return folder if RUN_ID.fullmatch(run) and Path(folder.root).is_dir() else None


def look(run: Run) -> Snapshot:
    """Read a run's folder."""
    faults: list[str] = []
    request = _document(LaunchRequest, run.job, faults)
    ended = _document(Exit, run.exit, faults)
    state = _document(State, run.state, faults)
    if state is None and ended is None and not faults and _given_up(run, request):
        state = _document(State, run.state, faults)  # it may have begun, and ended, between the two looks
        lost = NEVER if state is None else _lost(state)
    else:
        lost = _lost(state) if ended is None and state is not None else None
    if lost is not None:  # it may have ended between the two looks
        ended = _document(Exit, run.exit, faults)
        lost = lost if ended is None else None
    return Snapshot(run, request, state, ended, lost, tuple(dict.fromkeys(faults)))


def owned(state: State) -> bool:
    """Tell whether the supervisor that wrote this state still lives."""
    return state.boot_id == processes.boot_id() and processes.alive(state.pid, state.pid_started)


def lost_reason(state: State, boot_id: str, *, kills: int = 0, by_kernel: bool = False) -> str:
    """Say why a run without exit.json has no supervisor; `kills` counts what the kernel has killed for memory."""
    if state.boot_id != boot_id:
        return "the host was rebooted while the run went on"
    if by_kernel:
        return f"its supervisor (pid {state.pid}) was killed by the kernel: the host ran out of memory"
    if kills > state.memory_kills:
        more = kills - state.memory_kills
        return (
            f"its supervisor (pid {state.pid}) was killed, perhaps by the kernel: since it was last heard of, "
            f"{more} process{'' if more == 1 else 'es'} of this host {'was' if more == 1 else 'were'} killed for memory"
        )
    return f"its supervisor (pid {state.pid}) was killed"


def _lost(state: State) -> str | None:
    return None if owned(state) else _reason(state)


def _given_up(run: Run, request: LaunchRequest | None) -> bool:
    """Tell of a folder without state.json whether nobody is left who could write one: the lock was taken before it."""
    if request is None:
        return _older(run, EMPTY)
    output = Output(PurePosixPath(request.job.output))
    held = locks.held(output)
    return _older(run, STARTING) if held is None else not held or _held_by_another(output, run)


def _held_by_another(output: Output, run: Run) -> bool:
    """Tell whether a run that goes on holds the lock; who signed it before may have ended."""
    holder = locks.holder(output)
    other = find(holder.workdir, holder.run) if holder is not None and holder.run != run.id else None
    if other is None or Path(other.exit).exists():
        return False
    state = _document(State, other.state, [])
    return state is not None and owned(state)


def _older(run: Run, seconds: float) -> bool:
    try:
        return abs(time.time() - Path(run.root).stat().st_mtime) > seconds  # the clock may have been set back since
    except FileNotFoundError:
        return False


def _reason(state: State) -> str:
    kills = processes.out_of_memory_kills()
    by_kernel = kills > state.memory_kills and memory_kills.killed(state.pid)
    return lost_reason(state, processes.boot_id(), kills=kills, by_kernel=by_kernel)


def _document(cls: type[T], path: PurePosixPath | os.PathLike[str], faults: list[str]) -> T | None:
    name = Path(path).name
    try:
        return wire.loads(cls, files.read(path), name)
    except FileNotFoundError:
        return None
    except OSError as error:
        faults.append(f"{name}: {error.strerror}")
    except (wire.WireError, ValueError) as error:
        faults.append(str(error))
    return None
