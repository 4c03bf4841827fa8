"""All processes that a run has started, as its supervisor sees them: waited for, reaped, and ended."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from remote import processes

if TYPE_CHECKING:
    from remote.attempts import Attempt
    from remote.ledger import Ledger
    from remote.paths import Run

TICK = 0.2  # seconds between two looks at the attempt, its events and the wish to stop
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)  # blocked in the supervisor, taken by `look`
GRACE = 20.0  # seconds that a stopped attempt has to finish the batch in hand
LEFTOVER_GRACE = 2.0  # for what an attempt that has ended itself left behind


class Household:
    """The processes of a run; `stop` is the grace of the wish to end them, once somebody wished for it.

    `whole` says that everything is asked to end at once. Else the attempt's own process is asked alone, because the
    workers of our engines must live until the batch in hand is finished.
    """

    def __init__(self, run: Run, ledger: Ledger, *, whole: bool) -> None:
        self.stop: float | None = None
        self.attempt: Attempt | None = None
        self._run = run
        self._ledger = ledger
        self._whole = whole

    def look(self, seconds: float) -> None:
        """Wait for a signal or the time, then see to the children, the wish to stop and the heartbeat."""
        caught = signal.sigtimedwait(SIGNALS, seconds)
        if caught is not None and caught.si_signo != signal.SIGCHLD and self.stop is None:
            self.stop = GRACE
        self._reap()
        if self.stop is None:
            self.stop = wish(self._run)
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
        """End everybody; gives the pids of those that live still."""
        left = processes.end(self.leftovers, grace=grace, tick=self._tick)
        self._reap()
        return left

    def leftovers(self) -> list[processes.Process]:
        """Give all that the run has started: what descends from us, and what carries its marks."""
        own = {process.pid: process for process in processes.started_by(os.getpid())}
        return list({**own, **{process.pid: process for process in processes.of_run(self._run)}}.values())

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
        data = json.loads(Path(run.stop).read_bytes())
        return max(0.0, float(data["grace"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return GRACE  # the wish stands, whatever the file holds
