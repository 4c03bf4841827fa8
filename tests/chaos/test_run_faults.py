"""Random faults while a run of the engine `command` goes on: a user's own program, ended whole and at once."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.follow import follow
from local.links.here import HereLink, HereStream
from remote.host import processes
from remote.run import runs
from remote.schema import Exit, Retry
from tests.running import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from local.links.base import Command
    from remote.paths import Run
    from remote.schema import Job

SAMPLES = 40
STARTS = 12  # so many times a user may have to say `extract`
# Writes sample files whole at a known rate, passes over those that stand, and has a worker that leaves the session.
ENGINE = """
import os, subprocess, sys, time
folder, total = sys.argv[1], int(sys.argv[2])
subprocess.Popen(["setsid", "sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for index in range(total):
    name = f"{folder}/sample-{index}"
    if not os.path.exists(name):
        time.sleep(0.02)
        with open(name + ".tmp", "w") as file:
            file.write(f"sample {index}")
        os.rename(name + ".tmp", name)
        with open(folder + "/computed", "a") as file:
            file.write(f"{index}\\n")
    print(f"done {index + 1}/{total} grüße", flush=True)
"""


class CutLink(HereLink):
    """A link to this machine whose streams can be cut."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.streams: list[HereStream] = []

    def stream(self, command: Command, *, stdin: bytes = b"") -> HereStream:
        self.streams.append(super().stream(command, stdin=stdin))
        return self.streams[-1]

    def cut(self) -> None:
        self.streams[-1]._process.kill()


class Chaos:
    """One schedule: follows a run and does something to it now and then."""

    def __init__(self, lab: Lab, link: CutLink, job: Job, seed: int) -> None:
        self.lab, self.link, self.job = lab, link, job
        self.dice = random.Random(seed)  # noqa: S311 - a replayable choice, no secret
        self.done: list[str] = []
        self.log = b""
        self._next = 0
        self._faults: dict[str, Callable[[Run], None]] = {
            "cut": lambda _: self.link.cut(),
            "kill attempt": lambda run: self._signal(run, signal.SIGKILL),
            "freeze attempt": lambda run: self._signal(run, signal.SIGSTOP),
            "kill worker": self._kill_worker,
            "kill supervisor": self._kill_supervisor,
            "freeze supervisor": self._freeze_supervisor,
            "second start": self._start_again,
            "stop": self._stop,
        }

    def follow(self, run: Run) -> Exit | None:
        self.log = b""
        self._next = self.dice.randint(1, 300)

        def on_log(data: bytes) -> None:
            self.log += data
            if len(self.log) >= self._next and len(self.done) < 5:
                self._next = len(self.log) + self.dice.randint(50, 400)
                name = self.dice.choice(list(self._faults))
                self.done.append(name)
                self._faults[name](run)

        lab = self.lab
        return follow(
            lab.host, bundle=lab.bundle, workdir=lab.workdir, run=run.id, on_log=on_log, on_event=lambda _: None
        )

    def _signal(self, run: Run, number: int) -> None:
        state = self.lab.state(run)
        for process in processes.started_by(state.pid):
            if process.parent == state.pid and process.session == process.pid and process.name.startswith("python"):
                processes.send(process, number)

    def _kill_worker(self, run: Run) -> None:
        for process in processes.of_run(run):
            if process.name == "sleep":
                processes.send(process, signal.SIGKILL)

    def _kill_supervisor(self, run: Run) -> None:
        if runs.look(run).active:
            os.kill(self.lab.state(run).pid, signal.SIGKILL)

    def _freeze_supervisor(self, run: Run) -> None:
        state = self.lab.state(run)
        supervisor = processes.read(state.pid)
        if supervisor is not None and runs.owned(state):
            processes.send(supervisor, signal.SIGSTOP)
            time.sleep(0.3)
            processes.send(supervisor, signal.SIGCONT)

    def _start_again(self, run: Run) -> None:
        active = runs.look(run).active
        answer = self.lab.launch(self.job)
        if active and runs.look(run).active:
            assert (answer.outcome, answer.run) == ("attached", run.id)

    def _stop(self, run: Run) -> None:
        answer = self.lab.stop(run.id, grace=0.5)
        assert answer.outcome in ("stopped", "already-ended")
        assert answer.left == ()


@pytest.fixture
def link(tmp_path: Path) -> CutLink:
    return CutLink(tmp_path)


@pytest.fixture
def lab(tmp_path: Path, link: CutLink) -> Iterator[Lab]:
    made = Lab(tmp_path, link=link)
    yield made
    left = made.clean_up()
    assert not left, f"left running: {left}"


@pytest.mark.parametrize("seed", range(int(os.environ.get("CHAOS_COMMANDS", "3"))))
def test_whatever_happens_each_sample_is_there_once_and_nothing_is_left(lab: Lab, link: CutLink, seed: int) -> None:
    (lab.root / "engine.py").write_text(ENGINE)
    retry = Retry(transient=3, start_line=20.0, progress_line=1.0, backoff=0.05)
    command = (sys.executable, "-S", "-E", str(lab.root / "engine.py"), str(lab.output), str(SAMPLES))
    job = lab.job(command=command, retry=retry)
    chaos = Chaos(lab, link, job, seed)
    for _ in range(STARTS):
        answer = lab.launch(job)
        assert answer.outcome in ("started", "attached")
        run = lab.run(answer.run or "")
        ended = chaos.follow(run)
        assert chaos.log == Path(run.log).read_bytes(), chaos.done
        if ended is not None and ended.phase == "done":
            break
    else:
        pytest.fail(f"not done after {STARTS} starts: {chaos.done}")
    for index in range(SAMPLES):
        assert (lab.output / f"sample-{index}").read_text() == f"sample {index}", chaos.done
    computed = (lab.output / "computed").read_text().split()
    assert len(computed) == len(set(computed)), chaos.done
    assert ended.left_running == ()
    for known in runs.folders(lab.workdir):
        if runs.look(known).active:  # a second start that came when the first run had just ended
            lab.ended(known)
        assert processes.of_run(known) == [], chaos.done
        assert runs.look(known).faults == ()
    lab.ended(run)
