"""All processes that a run has started, as its supervisor sees them: waited for, reaped, and ended."""

from __future__ import annotations

import math
import os
import signal
import time
from typing import TYPE_CHECKING

from remote import files, wire
from remote.host import gpu_holders, processes, shared_memory, signals, sockets

if TYPE_CHECKING:
    from remote.paths import Run
    from remote.run.attempts import Attempt
    from remote.run.ledger import Ledger

TICK = 0.2  # seconds between two looks at the attempt, its events and the wish to stop
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)  # blocked in the supervisor, taken by `look`
GRACE = 20.0  # seconds that a stopped attempt has to finish the batch in hand
SURVEY = 2.0  # seconds between two looks at who there is and what shared memory they have made
LEFTOVER_GRACE = 2.0  # for what an attempt that has ended itself left behind


class Household:
    """The processes of a run; `stop` is the grace of the wish to end them, once somebody wished for it.

    `whole` says that everything is asked to end at once. Else the attempt's own process is asked alone, because the
    workers of our engines must live until the batch in hand is finished.
    """

    def __init__(self, run: Run, ledger: Ledger, *, whole: bool) -> None:
        self.stop: float | None = None
        self.stopper: str | None = None  # who ended us with a signal; None for a wish in the run's folder
        self.attempt: Attempt | None = None
        self.apart: set[int] = set()  # sessions of the supervisor's own: the run neither waits for them nor ends them
        self._run = run
        self._ledger = ledger
        self._whole = whole
        self._seen: set[int] = set()
        self._shared = shared_memory.Account(frozenset(shared_memory.present()), frozenset())
        self._surveyed = 0.0
        shared_memory.note(run, self._shared)

    def look(self, seconds: float) -> None:
        """Wait for a signal or the time, then see to the children, the wish to stop and the heartbeat."""
        for caught in signals.wait(SIGNALS, seconds):
            if caught.si_signo != signal.SIGCHLD and self.stop is None:
                self.stop, self.stopper = GRACE, _sender(caught)
        self._reap()
        if self.stop is None:
            self.stop = wish(self._run)
        if time.monotonic() - self._surveyed > SURVEY:
            self._survey(self._started())
        self._ledger.beat()

    def end_attempt(self, attempt: Attempt, grace: float) -> tuple[int, ...]:
        """End an attempt with all that it started; gives the pids of those that live still."""
        if self._whole or attempt.main is None:
            return self.end_all(grace)
        processes.send(attempt.main, signal.SIGTERM)
        until = time.monotonic() + grace
        while attempt.code is None and time.monotonic() < until:
            self._tick()
            time.sleep(TICK / 4)
        return self.end_all(LEFTOVER_GRACE if attempt.code is not None else 0.0)

    def end_all(self, grace: float) -> tuple[int, ...]:
        """End everybody and remove the shared memory that they leave; gives the pids of those that live still."""
        self._survey(self.leftovers())
        left = processes.end(self.leftovers, grace=grace, tick=self._tick)
        self._reap()
        if gone := shared_memory.remove(self._shared.made):
            self._ledger.tell("swept", shared=list(gone))
        if not left:
            sockets.sweep(self._run)
        return left

    def gpu_held(self) -> tuple[int, ...]:
        """Give the processes of the run that are gone while a GPU still counts them as its users."""
        living = {process.pid for process in processes.everybody()}
        return tuple(pid for pid in gpu_holders.held(self._seen) if pid not in living)

    def leftovers(self) -> list[processes.Process]:
        """Give all that the run has started: what descends from us, and what carries its marks."""
        own = {process.pid: process for process in self._started()}
        return list({**own, **{process.pid: process for process in processes.of_run(self._run)}}.values())

    def _started(self) -> list[processes.Process]:
        """Give what descends from us and is of the run."""
        return [process for process in processes.started_by(os.getpid()) if process.session not in self.apart]

    def _survey(self, found: list[processes.Process]) -> None:
        """Note who there is and what they have made: of those who are killed it cannot be asked any more."""
        self._surveyed = time.monotonic()
        pids = {process.pid for process in found}
        self._seen |= pids
        before, self._shared = self._shared, self._shared.with_mapped(pids)
        if before != self._shared:
            shared_memory.note(self._run, self._shared)

    def _tick(self) -> None:
        """Go on with what must not wait while processes are being ended."""
        self._reap()
        if self.attempt is not None:
            for event in self.attempt.pump():
                self._ledger.hear(event)
        self._ledger.beat()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self.attempt is not None and pid == self.attempt.pid:
                self.attempt.reaped(status)


def wish(run: Run) -> float | None:
    """Give the grace that the stop file grants, None when nobody wished for the end."""
    try:
        data = wire.parse(files.read(run.stop))
        grace = float(data["grace"])
        return max(0.0, grace) if math.isfinite(grace) else GRACE
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        # The wish stands, whatever the file holds; but a host that cannot open any file has not wished for anything.
        return GRACE if os.path.lexists(run.stop) else None


def _sender(caught: signal.struct_siginfo) -> str:
    """Say which signal came, and from whom."""
    sender = processes.read(caught.si_pid)
    name = f" ({sender.name})" if sender is not None else ""
    return f"{signal.Signals(caught.si_signo).name} from pid {caught.si_pid}{name}"
