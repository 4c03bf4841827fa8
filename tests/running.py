"""What the tests of runs share: a host that is this machine, jobs that are shell scripts, and nothing left behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local import bundle as bundles
from local.host import Host
from local.links.here import HereLink
from remote.host import processes, sockets
from remote.run import runs
from remote.schema import (
    Exit,
    Job,
    LaunchAnswer,
    LaunchRequest,
    Retry,
    RunStatus,
    State,
    StatusAnswer,
    StatusRequest,
    StopAnswer,
    StopRequest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.links.base import Link
    from remote.paths import Run

PATIENCE = 30.0
BARE = bundles.pack(None, {})


def until(condition: Callable[[], Any], what: str = "", *, patience: float = PATIENCE) -> Any:
    """Give the condition's value once it is true."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {patience:g} s: {what or condition}")


class Lab:
    """One workdir on this machine, with a bundle in place."""

    def __init__(self, root: Path, *, python: str = sys.executable, link: Link | None = None) -> None:
        root.mkdir(exist_ok=True)
        self.root = root
        self.python = python
        self.output = root / "out"
        self.host = Host(link or HereLink(root), name="here", python=python, workdir=str(root / "work"))
        self.host.push(BARE)
        self.workdir = self.host.workdir
        self.bundle = BARE.id

    def job(self, script: str = "", **changes: Any) -> Job:
        job = Job(
            name="job", engine="command", python=self.python, workdir=self.workdir, output=str(self.output),
            command=("bash", "-c", script), progress=r"^done (?P<done>\d+)/(?P<total>\d+)", retry=Retry(backoff=0.05),
        )  # fmt: skip
        return dataclasses.replace(job, **changes)

    def request(self, job: Job, **changes: Any) -> LaunchRequest:
        return dataclasses.replace(LaunchRequest(job=job, bundle=self.bundle, fingerprint="f"), **changes)

    def launch(self, job: Job, **changes: Any) -> LaunchAnswer:
        return self.host.call(
            "launch", self.request(job, **changes), LaunchAnswer, bundle=self.bundle, deadline=PATIENCE
        )

    def start(self, script: str, **changes: Any) -> Run:
        """Launch a script that must start."""
        answer = self.launch(self.job(script, **changes))
        assert (answer.outcome, answer.message) == ("started", "")
        assert answer.run is not None
        return self.run(answer.run)

    def run(self, name: str) -> Run:
        run = runs.find(self.workdir, name)
        assert run is not None
        return run

    def extracting(self, run: Run) -> Run:
        """Wait until the supervisor has written down that the job is at work."""
        until(lambda: self.state(run).phase == "extracting", f"{run.id} at work")
        return run

    def ended(self, run: Run) -> Exit:
        """Wait for the end of a run whose supervisor has gone, too."""
        found: Exit = until(lambda: runs.look(run).exit, f"the end of {run.id}")
        state = self.state(run)
        until(lambda: not processes.alive(state.pid, state.pid_started), "the end of the supervisor")
        return found

    def state(self, run: Run) -> State:
        found: State = until(lambda: runs.look(run).state, f"the state of {run.id}")
        return found

    def status(self, run: str | None = None) -> tuple[RunStatus, ...]:
        request = StatusRequest(workdir=self.workdir, run=run)
        return self.host.call("status", request, StatusAnswer, bundle=self.bundle, deadline=PATIENCE).runs

    def stop(self, run: str | None = None, grace: float = 5.0) -> StopAnswer:
        request = StopRequest(workdir=self.workdir, run=run, grace=grace)
        return self.host.call("stop", request, StopAnswer, bundle=self.bundle, deadline=PATIENCE)

    def logged(self, run: Run, text: str) -> str:
        """Wait until the log holds a text; gives the log."""

        def found() -> str | None:
            log = Path(run.log).read_text(errors="replace") if Path(run.log).exists() else ""
            return log if text in log else None

        return str(until(found, f"{text!r} in the log"))

    def kill_supervisor(self, run: Run) -> None:
        """End the supervisor as the kernel's out-of-memory killer would."""
        state = self.state(run)
        os.kill(state.pid, signal.SIGKILL)
        until(lambda: not processes.alive(state.pid, state.pid_started), "the end of the supervisor")

    def clean_up(self) -> list[processes.Process]:
        """End whatever the test has left running; gives who that was."""
        left = []
        for run in runs.folders(self.workdir):
            if runs.look(run).exit is not None:
                self.ended(run)  # its supervisor is about to be gone
            state = runs.look(run).state
            if state is not None and runs.owned(state):
                supervisor = processes.read(state.pid)
                left += [supervisor] if supervisor else []
                os.kill(state.pid, signal.SIGKILL)
            left += processes.of_run(run)
            processes.end(lambda run=run: processes.of_run(run), grace=0.0)  # type: ignore[misc]
            sockets.sweep(run)
        self.host.link.close()
        return left
