"""Role `supervise RUN_DIR HANDSHAKE_FD LOCK_FD [reaped]`: own a run from its first attempt to its exit.json.

Started by `launch`, detached, with the lock on the output folder, the secrets as a JSON object on standard input, and a
pipe on which one JSON line says whether the run started (`{"outcome": "started"}`) or why not
(`{"outcome": "refused", "message": …}`); `reaped` says that leftovers of a lost run had to be ended first. This is the
only home of the retry policy. Exit code: 0 when exit.json was written, 1 when the run never started.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import files, wire
from remote.failures import Failure
from remote.host import processes
from remote.paths import Run, Workdir
from remote.run import attempts, hand, room
from remote.run.handshake import Handshake
from remote.run.hooks import Hooks
from remote.run.household import LEFTOVER_GRACE, SIGNALS, TICK, Household
from remote.run.judging import Ended, Judge, Result
from remote.run.ledger import Ledger
from remote.run.retries import Signs
from remote.run.upkeep import Upkeep
from remote.schema import Exit, LaunchRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

HANG_GRACE = 5.0
LONGEST_DELAY = 300.0


class Orphaned(Exception):
    """The launcher was killed while it started us."""


class NotStarted(Exception):
    """The first attempt could not be started at all."""


class Supervisor:
    """Owns the attempts of one run."""

    def __init__(
        self,
        run: Run,
        request: LaunchRequest,
        secrets: Mapping[str, str],
        handshake: Handshake,
        *,
        reaped: bool = False,
    ) -> None:
        self.run = run
        self.job = request.job
        self.ledger = Ledger(run, request.job.output, secrets=secrets.values())
        self._bundle = Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle)
        self._secrets = secrets
        self._handshake = handshake
        self._judging = Judge(run, request.job, self.ledger)
        self._house = Household(run, self.ledger, whole=request.job.engine == "command")
        self._left: tuple[int, ...] = ()
        self._reaped = reaped  # leftovers of what went before had to be ended
        self._killed_for_memory = False
        self._full: str | None = None  # why the run was ended for lack of room
        self._hanging = False
        self.hooks = Hooks(request, secrets, self.ledger, self._house)
        self._upkeep = Upkeep(run, request.job, self.ledger, self._house.apart)
        self._code = 0

    def go(self) -> Exit:
        """Make attempts until the run is over; raises NotStarted."""
        import tenacity

        backoff = self.job.retry.backoff
        self.ledger.write()
        self.ledger.tell("started", run=self.run.id, pid=os.getpid(), job=self.job.name)
        delays: Any = tenacity.wait_exponential(multiplier=backoff, max=max(LONGEST_DELAY, backoff))
        delays += tenacity.wait_random(0, backoff / 2)

        def delay(state: Any) -> float:
            return float(delays(state) + state.outcome.result().failure.wait)

        retrying = tenacity.Retrying(
            retry=self._again,
            wait=delay,
            sleep=self._sleep,
            before_sleep=self._announce,
        )
        result: Result = retrying(self._one_attempt)
        speaks_against = self.hooks.verify(self._upkeep.no_room) if result.kind == "done" else None
        return self._exit(Result("failed", result.code, speaks_against) if speaks_against else result)

    def abandon(self) -> Exit:
        """End everything after a fault of our own, so that nobody is left behind."""
        self._left = self._house.end_all(0.0)
        return self._exit(Result("failed", 1, Failure(kind="fatal", cause="supervisor-crashed")))

    # ---- the retry policy, as tenacity asks for it -------------------------------------------------------------

    def _again(self, state: Any) -> bool:
        if state.outcome.failed:
            return False  # not an attempt's failure but ours: tenacity raises it
        failure = state.outcome.result().failure
        if failure is None:
            return False
        if self._judging.further:
            state.attempt_number = 1  # the delays start over
        return self._judging.allows(failure)

    def _announce(self, state: Any) -> None:
        cause = state.outcome.result().failure.cause
        number = self.ledger.state.attempt + 1
        self.ledger.tell("retry", attempt=number, delay=round(state.next_action.sleep, 1), cause=cause)
        self.ledger.change(phase="retrying", cause=cause)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._house.stop is None and (left := until - time.monotonic()) > 0:
            self._house.look(min(TICK, left))

    # ---- one attempt -------------------------------------------------------------------------------------------

    def _one_attempt(self) -> Result:
        if self._house.stop is not None:
            return Result("stopped", self._code)
        number = self.ledger.state.attempt + 1
        hand.drop(self.run)  # what an earlier attempt held is judged by now
        try:
            places = self._judging.own_places
            attempt = attempts.Attempt(self.run, self.job, self._bundle, number, {**self._secrets, **places})
        except OSError as error:
            message = f"cannot start {error.filename or self.job.python}: {error.strerror}"
            if self._handshake.open:
                raise NotStarted(message) from error
            return Result("failed", 127, Failure(kind="fatal", cause="cannot-start", root_line=message))
        self._house.attempt = attempt
        self._hanging = False
        # Before the state says so: a launch that gets no word removes the run, and nobody may be attached to it then.
        self._handshake.say("started")
        self.ledger.change(phase="starting", attempt=number, cause=None)  # what was wrong before is in the events
        self.ledger.tell("attempt", pid=attempt.pid)
        reaped = self._reaped
        hang, progressed = self._watch(attempt)
        result = self._judge(attempt, hang, progressed=progressed, reaped=reaped)
        self._code = result.code
        self._tell_end(result)
        return result

    def _watch(self, attempt: attempts.Attempt) -> tuple[str, bool]:
        """Stay with the attempt until it and all that it started is gone; gives why it hung and what it progressed."""
        kills = processes.out_of_memory_kills()
        signs = Signs(time.monotonic())
        hang: str | None = None
        while attempt.code is None and self._house.stop is None and hang is None and self._full is None:
            self._house.look(TICK)
            self._note(attempt, signs)
            hang = self._hangs(signs)
            self._full = self._upkeep.out_of_room()
            self._upkeep.trim()
            self._upkeep.vitals.tick()
        if self._full is not None and self._house.stop is None and attempt.code is None:
            self._left = self._house.end_attempt(attempt, HANG_GRACE)
        elif self._house.stop is not None and attempt.code is None:
            self.ledger.tell("stopping", grace=self._house.stop, by=self._house.stopper)
            self._left = self._house.end_attempt(attempt, self._house.stop)
        elif hang is not None and attempt.code is None:
            self.ledger.tell("hang", waiting=hang, action="restart")
            self.hooks.hang(hang)
            self._left = self._house.end_attempt(attempt, HANG_GRACE)
        else:
            hang = None
            self._reaped = bool(self._house.leftovers())
            self._left = self._house.end_all(LEFTOVER_GRACE)
        self._note(attempt, signs)
        self._killed_for_memory = processes.out_of_memory_kills() > kills
        return hang or "", signs.extracting

    def _hangs(self, signs: Signs) -> str | None:
        """Say why the attempt is to be ended; where a hang is only to be reported, report it, and its end."""
        waiting = signs.hangs(time.monotonic(), self.job.retry)
        if self.job.retry.hang != "report":
            return waiting
        if waiting is not None and not self._hanging:
            self.ledger.tell("hang", waiting=waiting, action="report")
            self.hooks.hang(waiting)
            self.ledger.change(cause=f"hangs: {waiting}")
        elif waiting is None and self._hanging:
            self.ledger.tell("hang-over")
            self.ledger.change(cause=None)
        self._hanging = waiting is not None
        return None

    def _note(self, attempt: attempts.Attempt, signs: Signs) -> None:
        """Take in what the attempt said and told since the last look."""
        told = [self.ledger.hear(event) for event in attempt.pump()]
        self.hooks.look()
        signs.blind = attempt.blind
        now = time.monotonic()
        if any(told):
            signs.progressed(now)
            attempt.all_well()
        if attempt.grew() or told:
            if signs.first is None and self.ledger.state.phase == "starting" and self.job.engine == "command":
                # A script tells no phases: what it does first is told for it.
                self.ledger.hear({"event": "phase", "phase": "loading" if self.job.progress else "extracting"})
            signs.said(now)

    def _judge(self, attempt: attempts.Attempt, hang: str, *, progressed: bool, reaped: bool) -> Result:
        ended = Ended(
            code=attempt.code if attempt.code is not None else 128 + signal.SIGKILL,
            stopped=self._house.stop is not None,
            left=self._left,
            full=self._full,
            hang=hang,
            held=hand.held(self.run),
            progressed=progressed,
            reaped=reaped,
            out_of_memory=self._killed_for_memory,
        )
        log = functools.partial(attempt.log_text, self._secrets.values())
        return self._judging.judge(ended, log, self._upkeep.no_room)

    def _tell_end(self, result: Result) -> None:
        failure = result.failure
        self.ledger.tell(
            "attempt-ended",
            code=result.code,
            **{"class": failure.kind if failure else result.kind},
            cause=failure.cause if failure else None,
            root_line=failure.root_line if failure else None,
            advice=failure.advice if failure else None,
        )

    def _exit(self, result: Result) -> Exit:
        failure = result.failure
        room.drop_ballast(self.run)
        phase = {"done": "done", "stopped": "stopped"}.get(result.kind, "failed")
        self.ledger.change(phase=phase, cause=failure.cause if failure else None)
        self.ledger.tell("ended", phase=phase, code=result.code, cause=failure.cause if failure else None)
        return Exit(
            phase=phase,
            code=result.code,
            ended=time.time(),
            attempts=self.ledger.state.attempt,
            cause=failure.cause if failure else None,
            root_line=failure.root_line if failure else None,
            samples=self.ledger.state.samples,
            left_running=self._left,
            kind=failure.kind if failure else None,
            advice=failure.advice if failure else "",
            gpu_held=self._house.gpu_held() if self.job.device == "cuda" else (),
        )


def main(arguments: list[str]) -> int:
    """Supervise the run of a folder; gives the exit code."""
    folder, handshake, lock = arguments[0], Handshake(int(arguments[1])), int(arguments[2])
    os.set_inheritable(lock, False)  # noqa: FBT003 - the standard library's own signature
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    attempts.adopt_orphans()
    run = Run(PurePosixPath(folder))
    try:
        request = wire.loads(LaunchRequest, Path(run.job).read_bytes(), "job.json")
        sys.path.insert(0, str(Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle).vendor))
        supervisor = Supervisor(run, request, _secrets(), handshake, reaped="reaped" in arguments[3:])
    except Orphaned:
        shutil.rmtree(folder, ignore_errors=True)  # nobody knows of this run, and it would look like one that starts
        return 1
    except Exception as error:
        handshake.say("refused", f"the supervisor cannot start: {error}")
        raise
    try:
        ended = supervisor.go()
    except NotStarted as error:
        handshake.say("refused", str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody may be left behind
        traceback.print_exc()
        handshake.say("refused", f"the supervisor failed: {error}")
        ended = supervisor.abandon()
    _write_exit(run, ended)
    if supervisor.hooks.wanted(ended.phase):
        os.close(lock)  # whatever they do, they do not keep the output folder from the next run
        supervisor.hooks.ended(ended)
    return 0  # the lock is let go by the kernel, last of all


def _write_exit(run: Run, ended: Exit) -> None:
    """Write exit.json; a full disk is waited out, because a run without it would look lost."""
    while not _written(run, ended) and Path(run.root).is_dir():
        time.sleep(1.0)


def _written(run: Run, ended: Exit) -> bool:
    try:
        files.replace(run.exit, wire.dumps(ended).encode())
    except OSError:
        return False
    return True


def _secrets() -> dict[str, str]:
    """Take the secrets from standard input; raises where the launcher was killed before it had told them."""
    said = sys.stdin.buffer.read()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        told: dict[str, str] = json.loads(said)
    except ValueError:
        raise Orphaned("the launcher ended before it had said everything") from None
    return told
