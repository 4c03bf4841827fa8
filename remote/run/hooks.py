"""The host's hooks, as the supervisor sees them: started beside it, heard of from a file, waited for at the end alone.

Also what `on_done` waits for: the outputs held against dataset and manifest by the verb that everybody uses.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from remote import wire
from remote.environment import job_environment
from remote.failures import Failure
from remote.host import processes
from remote.paths import Workdir
from remote.results import verified
from remote.run import endings, events, occasions
from remote.run.hook_child import DEADLINE, GRACE
from remote.run.household import TICK
from remote.schema import VerifyRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from remote.run.household import Household
    from remote.run.ledger import Ledger
    from remote.schema import Exit, LaunchRequest, VerifyAnswer

VERIFYING = 4 * 3600.0
HEARING = 2.0  # seconds between exit.json and the hooks of the end: whoever follows is to hear of it first
ADVICE = "`extract` computes what is missing or damaged, and nothing else."


class Hooks:
    """The hooks of one run."""

    def __init__(self, request: LaunchRequest, secrets: Mapping[str, str], ledger: Ledger, house: Household) -> None:
        self._request = request
        self._secrets = dict(secrets)
        self._ledger = ledger
        self._house = house
        self._bundle = Workdir(PurePosixPath(request.job.workdir)).bundle(request.bundle)
        self._heard = events.Tail(ledger.run.hooks_events)
        self._proven = True  # nothing speaks against on_done

    def look(self) -> None:
        """Take in how hooks have ended."""
        for line in self._heard.lines():
            if (event := events.parse(line)) is not None:
                self._ledger.hear(event)

    def hang(self, waiting: str) -> None:
        """Start the hooks of a hang."""
        self._start(occasions.HANG, {"phase": self._ledger.state.phase, "cause": "hang", "waiting": waiting})

    def verify(self, no_room: Callable[[], str | None]) -> Failure | None:
        """Hold the outputs against dataset and manifest where a hook waits for it; gives what speaks against them.

        An answer that there was no room for is asked of `no_room`, which says what file system is full.
        """
        if not self._request.hooks.on_done or self._request.job.engine == "command":
            return None
        self._ledger.change(phase="verifying")
        before = verified.last(self._ledger.run)
        if not self._wait(self._spawn("verify", self._question()), VERIFYING):
            self._house.end_all(GRACE)
            if self._house.stop is not None:
                self._proven = False
                return None  # done, but nobody knows what the outputs are worth: no hook
        kept = verified.last(self._ledger.run)
        answer = kept.answer if kept is not None and kept != before else None
        if answer is not None:
            self._ledger.tell(
                "verified", total=answer.total, valid=answer.valid, missing=answer.missing, damaged=answer.damaged,
                tokens=answer.tokens, size=answer.size,
            )  # fmt: skip
        if (answer is None or not answer.total) and (full := no_room()) is not None:
            return endings.disk_full(full)
        return _against(answer)

    def ended(self, ended: Exit) -> None:
        """Run the hooks of the end and stay until they are over: exit.json stands, nothing depends on it any more."""
        occasion = occasions.at_end(ended.phase)
        if occasion is None or (occasion == occasions.DONE and not self._proven):
            return
        commands = self._commands(occasion)
        if not commands:
            return
        until = time.monotonic() + HEARING
        while (left := until - time.monotonic()) > 0:
            self._house.look(min(TICK, left))
        process = self._start(occasion, occasions.of_exit(ended))
        if process is not None:
            self._wait(process, len(commands) * (DEADLINE + 4 * GRACE))
        self.look()
        self._ledger.write()

    def wanted(self, phase: str) -> bool:
        """Tell whether hooks wait for such an end."""
        occasion = occasions.at_end(phase)
        return occasion is not None and bool(self._commands(occasion))

    def _commands(self, occasion: str) -> tuple[str, ...]:
        commands: tuple[str, ...] = getattr(self._request.hooks, occasion)
        return commands

    def _start(self, occasion: str, facts: dict[str, Any]) -> processes.Process | None:
        """Start the commands of an occasion in a session of their own, which is not the run's."""
        commands = self._commands(occasion)
        if not commands:
            return None
        asked = {
            "run": str(self._ledger.run.root), "occasion": occasion, "commands": commands,
            "environment": self._environment(occasion, facts), "secrets": list(self._secrets.values()),
        }  # fmt: skip
        process = self._spawn("hook", json.dumps(asked).encode())
        if process is not None:
            self._house.apart.add(process.pid)
        return process

    def _environment(self, occasion: str, facts: dict[str, Any]) -> dict[str, str]:
        """Give the job's environment, less what is for its engine alone, with what is known of the occasion."""
        job, run, state = self._request.job, self._ledger.run, self._ledger.state
        known = {
            "run": run.id, "run_dir": run.root, "job": job.name, "host": socket.gethostname(), "output": job.output,
            "attempts": state.attempt, **occasions.of_samples(state.samples), **facts,
        }  # fmt: skip
        environment = job_environment(job, self._bundle, secrets=self._secrets)
        for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
            environment.pop(name, None)
        return {**environment, **job.env, **self._secrets, **occasions.variables(occasion, **known)}

    def _question(self) -> bytes:
        request, job = self._request, self._request.job
        question = VerifyRequest(job=job, secrets=self._secrets, deadline=VERIFYING, shard=request.shard)
        return wire.dumps(question).encode()

    def _spawn(self, word: str, stdin: bytes) -> processes.Process | None:
        """Start a verb or role of ours; its secrets go through a pipe. None where it has ended, or cannot start."""
        words = [sys.executable, "-I", "-B", str(self._bundle.entry), word]
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/"
            )
        except OSError as error:
            self._ledger.tell("hook", occasion=word, number=0, code=127, cause=f"cannot be started ({error.strerror})")
            return None
        found = processes.read(process.pid)
        with contextlib.suppress(BrokenPipeError):
            assert process.stdin is not None  # noqa: S101 - it was asked for
            process.stdin.write(stdin)
            process.stdin.close()
        process.returncode = 0  # reaped by the household, like all that is ours
        return found

    def _wait(self, process: processes.Process | None, seconds: float) -> bool:
        """Wait for a process of ours; False where time, or somebody's wish to stop, came first."""
        until = time.monotonic() + seconds
        while process is not None and processes.alive(process.pid, process.started):
            if self._house.stop is not None or time.monotonic() > until:
                return False
            self._house.look(TICK)
            self.look()
        return process is not None


def _against(answer: VerifyAnswer | None) -> Failure | None:
    """Say what a check says against the outputs, None where they are whole."""
    if answer is not None and answer.total and answer.valid == answer.total:
        return None
    if answer is None:
        line = "the outputs could not be verified: no answer"
    elif not answer.total:
        line = f"the outputs could not be verified: {answer.findings[0].message if answer.findings else 'no samples'}"
    else:
        line = f"{answer.valid} of {answer.total} samples are valid, {answer.missing} missing, {answer.damaged} damaged"
    return Failure(kind="fatal", cause="verify", root_line=line, advice=ADVICE)
