"""What the end of an attempt was: done, stopped, or failed of what; and what a failure is worth after those before it.

The facts stand in an `Ended`, gathered by who stayed with the attempt; what costs something to know (the log, the room
on the disks) is asked only where it matters.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remote import bounded
from remote.failures import Failure, classify, with_patterns
from remote.run import batch, endings, suspects
from remote.run.retries import Budgets

if TYPE_CHECKING:
    from collections.abc import Callable

    from remote.paths import Run
    from remote.run.ledger import Ledger
    from remote.schema import Job

JUDGING = 6.0  # seconds of computing that a log may take to be understood, most of it the job's own patterns
SOME_SAMPLES_FAILED = 10  # the attempt's exit code when all but poison samples are done
TOO_MANY_FAILED = 11  # and when more failed than the job allows


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended: done, stopped or failed (then `failure` says why)."""

    kind: str
    code: int
    failure: Failure | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """What is known of an attempt that has ended, besides its log."""

    code: int
    stopped: bool = False  # somebody wished for it
    left: tuple[int, ...] = ()  # pids that outlive SIGKILL
    full: str | None = None  # why it was ended for lack of room
    hang: str = ""  # why it was ended for making no headway
    held: tuple[int, ...] = ()  # samples that the engine was asked for and has not answered
    progressed: bool = False
    reaped: bool = False  # leftovers of what went before it had to be ended
    out_of_memory: bool = False  # the kernel has killed somebody for memory meanwhile


class Judge:
    """Judges the attempts of one run, one after the other; remembers what that takes."""

    def __init__(self, run: Run, job: Job, ledger: Ledger) -> None:
        self.further = False  # the last attempt had more samples dealt with than all before it
        self.own_places: dict[str, str] = {}  # variables that lead attempts away from places that others share
        self._run = run
        self._job = job
        self._ledger = ledger
        self._budgets = Budgets(job.retry)
        self._rows = with_patterns(job.retry.patterns)
        self._inquiry = suspects.Inquiry(run)

    def judge(self, ended: Ended, log: Callable[[], str], no_room: Callable[[], str | None]) -> Result:
        """Say how an attempt ended; `log` gives what it said, `no_room` which file system of the run is full."""
        if ended.code == 0:
            return Result("done", ended.code)
        if ended.stopped:
            return Result("stopped", ended.code)
        failure = self._known(ended)
        if failure is None:
            failure = self._classified(log(), ended)
            if failure.kind in ("transient", "unknown") and (full := no_room()) is not None:
                failure = endings.disk_full(full)
        return Result("failed", ended.code, self._settled(failure, ended))

    def allows(self, failure: Failure) -> bool:
        """Tell whether another attempt may follow; it counts."""
        return self._budgets.allows(failure)

    def _known(self, ended: Ended) -> Failure | None:
        """Give the failure that needs no log, None where the log must say it."""
        samples, retry = self._ledger.state.samples, self._job.retry
        if ended.left:
            return endings.stuck(ended.left)
        if ended.full is not None:
            return endings.disk_full(ended.full)
        if ended.hang:
            return endings.hung(ended.hang)
        if ended.code == SOME_SAMPLES_FAILED:
            return endings.samples_failed(samples)
        if ended.code == TOO_MANY_FAILED and self._job.engine != "command":
            return endings.too_many_failed(samples, retry.max_failed_samples)
        return None

    def _classified(self, log: str, ended: Ended) -> Failure:
        """Say what the log says; the job's own patterns are left out where they would take for ever."""
        facts: Any = {
            "progressed": ended.progressed, "reaped": ended.reaped, "out_of_memory": ended.out_of_memory,
        }  # fmt: skip
        try:
            with bounded.within(JUDGING):
                return classify(log, ended.code, rows=self._rows, **facts)
        except bounded.Overrun:
            return endings.patterns_overran(classify(log, ended.code, **facts), JUDGING)

    def _settled(self, failure: Failure, ended: Ended) -> Failure:
        """Give the failure as what it is after those before it, and after what can be done about it."""
        self.further = self._ledger.came_further()
        if self.further:
            self._budgets.progressed()
        if failure.cause == "triton-cache-race":
            self.own_places["TRITON_CACHE_DIR"] = str(self._run.root / "triton")
        if failure.cause in batch.CAUSES and len(ended.held) != 1 and self._halve():
            return dataclasses.replace(failure, kind="transient", advice="Going on with half a batch.", mended=True)
        blamed = self._inquiry.judge(failure, ended.held, progressed=ended.progressed)
        return self._budgets.settled(failure) if blamed is None else blamed

    def _halve(self) -> bool:
        """Halve the batch when memory ran out on one; False where that cannot help."""
        size = batch.size(self._run, self._job)
        if self._job.engine == "command" or self._ledger.state.phase != "extracting" or size <= 1:
            return False
        try:
            batch.shrink(self._run, size // 2)
        except OSError:
            return False
        self._ledger.tell("batch-halved", size=size // 2)
        return True
