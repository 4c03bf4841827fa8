"""Verb `status`: the runs of a workdir as their files and processes tell them, however damaged the files are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from remote.run import room, runs
from remote.schema import RunStatus, Samples, StatusAnswer, StatusRequest

if TYPE_CHECKING:
    from remote.run.runs import Snapshot

STALE = 30.0  # seconds without heartbeat after which a living supervisor is worth a word


def answer(request: StatusRequest) -> StatusAnswer:
    """Tell of one run, or of all, newest first."""
    if request.run is not None:
        run = runs.find(request.workdir, request.run)
        found = [] if run is None else [run]
    else:
        found = runs.folders(request.workdir)[: max(0, request.limit)]
    return StatusAnswer(runs=tuple(describe(runs.look(run), now=time.time()) for run in found))


def describe(snapshot: Snapshot, *, now: float) -> RunStatus:
    """Give the status of a run from what its folder says."""
    state, ended, request = snapshot.state, snapshot.exit, snapshot.request
    phase, cause = judge(snapshot, now=now)
    return RunStatus(
        run=snapshot.run.id,
        phase=phase,
        cause=cause,
        attempt=ended.attempts if ended else state.attempt if state else 0,
        pid=state.pid if state else None,
        started=state.started if state else None,
        last_seen=ended.ended if ended else state.heartbeat if state else None,
        output=request.job.output if request else state.output if state else None,
        samples=ended.samples if ended else state.samples if state else Samples(),
        tokens=state.tokens if state else 0,
        tokens_total=state.tokens_total if state else 0,
        log_bytes=_size(Path(snapshot.run.log)),
        exit=ended.code if ended else None,
        job=request.job.name if request else None,
        bundle=request.bundle if request else None,
        shard=request.shard if request else None,
    )


def judge(snapshot: Snapshot, *, now: float) -> tuple[str, str | None]:
    """Give phase and cause; what cannot be understood is `unknown`, never guessed."""
    if snapshot.exit is not None:
        return snapshot.exit.phase, snapshot.exit.cause
    garbled = [fault for fault in snapshot.faults if fault.startswith(("state.json", "exit.json"))]
    if garbled:
        return "unknown", "; ".join(garbled)
    if snapshot.lost is not None:
        return "lost", snapshot.lost
    if snapshot.state is None:
        return "starting", None
    silent = now - snapshot.state.heartbeat
    return snapshot.state.phase, snapshot.state.cause if abs(silent) <= STALE else _why_silent(snapshot, silent)


def _why_silent(snapshot: Snapshot, seconds: float) -> str:
    full = room.full([snapshot.run.root])
    if full is not None:
        return f"disk full: {full}; the supervisor cannot write down how the run goes on"
    since = f"for {seconds:.0f} s" if seconds > 0 else "since the host's clock was set back"
    return f"the supervisor lives but has not been heard of {since}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
