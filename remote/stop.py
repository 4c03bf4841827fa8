"""Verb `stop`: wish for a run's end, wait for it, and where nobody is left to grant the wish, end the run ourselves.

Whatever way it goes, the answer names the processes of the run that live still.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

from remote import files, wire
from remote.host import gpu_holders, processes, shared_memory, sockets
from remote.run import room, runs
from remote.schema import Exit, Samples, StopAnswer, StopRequest

if TYPE_CHECKING:
    from remote.host.processes import Process
    from remote.paths import Run
    from remote.run.runs import Snapshot

PATIENCE = 25.0  # seconds beyond the grace that a supervisor has to end its run
LEFTOVER_GRACE = 2.0
POLL = 0.1


def answer(request: StopRequest) -> StopAnswer:
    """Stop one run: the one that is named, or the latest that goes on."""
    if request.run is not None:
        run = runs.find(request.workdir, request.run)
        if run is None:
            return StopAnswer(
                outcome="not-found", run=request.run, message=f"no run {request.run} in {request.workdir}"
            )
        return _stop(run, request.grace)
    found = [run for run in runs.folders(request.workdir) if _stoppable(runs.look(run))]
    if not found:
        return StopAnswer(outcome="nothing-running", message=f"no run goes on in {request.workdir}")
    return _stop(found[0], request.grace)


def _stoppable(snapshot: Snapshot) -> bool:
    return snapshot.active or (snapshot.exit is None and bool(processes.of_run(snapshot.run)))


def _stop(run: Run, grace: float) -> StopAnswer:
    snapshot = runs.look(run)
    if snapshot.exit is not None:
        return _ended_already(run, f"it had ended: {snapshot.exit.phase}")
    if snapshot.lost is not None:
        return _end_lost(run, snapshot.lost, grace)
    _wish(run, snapshot, grace)
    return _await(run, time.monotonic() + grace + PATIENCE)


def _wish(run: Run, snapshot: Snapshot, grace: float) -> None:
    """Leave the wish in the run's folder; on a full disk tell the supervisor by a signal."""
    try:
        files.replace(run.stop, json.dumps({"grace": grace}).encode())
    except OSError:
        state = snapshot.state
        supervisor = processes.read(state.pid) if state is not None and runs.owned(state) else None
        if supervisor is None:
            raise
        processes.send(supervisor, signal.SIGTERM)


def _await(run: Run, until: float) -> StopAnswer:
    """Wait until the supervisor has ended the run; take over where it is gone or does not react."""
    while time.monotonic() < until:
        snapshot = runs.look(run)
        if snapshot.exit is not None:
            left = _pids(run)
            if snapshot.exit.phase == "stopped":
                words = _left_words(left) + _held_words(snapshot.exit.gpu_held)
                return StopAnswer(outcome="stopped", run=run.id, left=left, message=words.removeprefix("; "))
            return _ended_already(run, f"it ended by itself: {snapshot.exit.phase}")
        if snapshot.lost is not None:
            return _end_lost(run, snapshot.lost, LEFTOVER_GRACE)
        time.sleep(POLL)
    return _take_over(run)


def _take_over(run: Run) -> StopAnswer:
    """End a run whose supervisor lives but does not react (stopped, or stuck in the kernel)."""
    state = runs.look(run).state
    if state is None or not runs.owned(state):
        return _end_lost(run, "its supervisor is gone", LEFTOVER_GRACE)
    supervisor = processes.read(state.pid)

    def everyone() -> list[Process]:
        alive = supervisor is not None and processes.alive(supervisor.pid, supervisor.started)
        own = [*processes.started_by(state.pid), supervisor] if alive and supervisor else []
        return [*own, *processes.of_run(run)]

    processes.end(everyone, grace=0.0)
    return _end_lost(run, "its supervisor did not react and was killed", 0.0)


def _end_lost(run: Run, why: str, grace: float) -> StopAnswer:
    """End what a run without supervisor has left behind, and close its account."""
    found = processes.of_run(run)
    shared_memory.add(run, [process.pid for process in found])
    if not found:
        ended = "nothing of it was running any more"
    else:
        processes.end(lambda: processes.of_run(run), grace=grace)
        ended = "its processes were ended"
    left = _pids(run)
    shared_memory.sweep(run)
    sockets.sweep(run)
    room.drop_ballast(run)
    held = tuple(pid for pid in gpu_holders.held([process.pid for process in found]) if pid not in left)
    state = runs.look(run).state
    account = Exit(
        phase="stopped",
        code=128 + signal.SIGKILL,
        ended=time.time(),
        attempts=state.attempt if state else 0,
        cause=why,
        samples=state.samples if state else Samples(),
        left_running=left,
        gpu_held=held,
    )
    files.replace(run.exit, wire.dumps(account).encode())
    words = f"{why}; {ended}{_left_words(left)}{_held_words(held)}"
    return StopAnswer(outcome="stopped", run=run.id, left=left, message=words)


def _held_words(held: tuple[int, ...]) -> str:
    pids = ", ".join(map(str, held))
    return f"; a GPU still counts memory of processes that are gone ({pids}): it may need a reset" if held else ""


def _ended_already(run: Run, message: str) -> StopAnswer:
    left = _pids(run)
    return StopAnswer(outcome="already-ended", run=run.id, left=left, message=message + _left_words(left))


def _pids(run: Run) -> tuple[int, ...]:
    return tuple(sorted(process.pid for process in processes.of_run(run)))


def _left_words(left: tuple[int, ...]) -> str:
    return f"; these of its processes live still: {', '.join(map(str, left))}" if left else ""
