"""A world whose engine is the real vLLM: the same user, the same faults, and what must hold of the stand-in's runs."""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import json
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.host import processes
from remote.run import runs
from remote.schema import Retry
from tests.chaos.links import HereFaults
from tests.chaos.plan import Plan
from tests.chaos.world import World, short_folder
from tests.running import Lab, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.links.base import Link
    from remote.schema import Job
    from tests.chaos.links import LinkFaults
    from tests.stack.conftest import Stack

STANDIN = Path(__file__).parent / "standin"
PATIENCE = 480.0  # seconds that a load may take beside other work; a run that is over is not waited for
DEADLINE = 2000.0
RETRY = Retry(transient=3, backoff=0.1)
SILENT = 60.0  # seconds; a load is silent for half of it
TOLERANCE = 0.02  # of states against those of Transformers


def hasty() -> Retry:
    """Give a retry that notices a hang soon: as soon as a load beside what else this machine does now allows."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return dataclasses.replace(RETRY, progress_line=SILENT * min(max(1.0, busy / 2), 4.0))


@dataclass(frozen=True)
class RealSample:
    """One sample of the dataset; its numbers are compared at the end, with those of Transformers."""

    index: int

    def stands(self, folder: Path) -> bool:
        """Tell whether its file is there."""
        return (folder / f"data_{self.index}.pt").is_file()


def host_python(root: Path, stack: Stack) -> str:
    """Make an environment that has all of the stack's packages, and a wall clock that can jump."""
    installed = next(Path(stack.python).parent.parent.glob("lib/python3*/site-packages"))
    python = root / "environment" / "bin" / "python"
    site = python.parents[1] / "lib" / installed.parent.name / "site-packages"
    for folder in (python.parent, site):
        folder.mkdir(parents=True)
    base = Path(stack.python).resolve()
    python.symlink_to(base)
    (python.parents[1] / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    (site / "stack.pth").write_text(f"import site; site.addsitedir({str(installed)!r})\n")
    shutil.copy(STANDIN / "sitecustomize.py", site)
    return str(python)


class RealWorld(World):
    """A host with the real stack; `copies` of the stack's dataset are extracted."""

    verifying = PATIENCE

    def __init__(
        self, root: Path, stack: Stack, *, copies: int = 1, link: Link | None = None,
        link_faults: LinkFaults | None = None, home: Path | None = None, **changes: Any,
    ) -> None:  # fmt: skip
        self.root, self.plan, self.small_disk = root, Plan(0), False
        self.disk, self.home = root / "disk", home or root
        self.disk.mkdir(exist_ok=True)
        self.faults_seen, self.said = [], []
        self._stack = stack
        self._until = time.monotonic() + DEADLINE
        self._doomed: list[Path] = []
        self._finished: dict[int, tuple[int, int]] = {}
        self.sockets = short_folder(self)
        here = HereFaults(root)
        self.link_faults = link_faults or here
        lines = Path(stack.job.dataset).read_text().splitlines() * copies
        (root / "data.jsonl").write_text("\n".join(lines) + "\n")
        self.samples = [RealSample(index) for index in range(len(lines))]  # type: ignore[misc] # all that is asked of one
        self._python, self._elsewhere = host_python(root, stack), list[Lab]()
        self.job: Job = dataclasses.replace(
            stack.job, python=self._python, workdir=str(self.disk / "work"), output=str(self.disk / "out"),
            dataset=str(root / "data.jsonl"), secret_env=("TOKEN",), env=self._environment(), **changes,
        )  # fmt: skip
        self.output = Path(self.job.output)
        self._furnish()
        self.lab = Lab(self.disk, python=self._python, link=link or here)
        self.lab.bundle = stack.bundle.root.name

    def _environment(self) -> dict[str, str]:
        """Give the job's environment: temporary files go where only this world's are, what is compiled stays shared."""
        compiled = Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
        here = {"TMPDIR": str(self.sockets), "TORCHINDUCTOR_CACHE_DIR": str(compiled)}
        return {**self._stack.job.env, **here}

    def _furnish(self) -> None:
        """Give the workdir the bundle and the compiled sources that the stack's tests share."""
        shared, work = Path(self._stack.job.workdir), self.disk / "work"
        work.mkdir()
        for name in ("bundles", "cache"):
            (shared / name).mkdir(exist_ok=True)
            (work / name).symlink_to(shared / name)

    def complaints(self) -> list[str]:
        """Say what is wrong with the finished output folder: every state is held against Transformers'."""
        told = self._stack.script("output_check.py", self.job.model, self.job.output, json.dumps(self.job.layers),
                                   deadline=PATIENCE)  # fmt: skip
        found = [] if told["files"] == len(self.samples) else [f"{told['files']} files of {len(self.samples)} samples"]
        found += [] if max(told["by_layer"]) <= TOLERANCE else [f"other states than Transformers': {told['by_layer']}"]
        return found + [f"left behind: {path.name}" for path in self.output.glob(".data_*")]

    # ---- what a test does -------------------------------------------------------------------------------------------

    def family(self) -> dict[str, list[processes.Process]]:
        """Give the processes of the run that goes on, by what they are."""
        run = until(self.newest, "a run")
        state = self.lab.state(run)
        supervisor = processes.read(state.pid)
        found = processes.started_by(state.pid)
        attempt = [one for one in found if one.parent == state.pid and one.name.startswith("python")]
        workers = [one for one in found if one.parent in {parent.pid for parent in attempt}]
        return {"supervisor": [supervisor] if supervisor else [], "attempt": attempt, "worker": workers}

    def wait_for_more(self, count: int = 1) -> None:
        """Wait until so many more samples stand: an engine is loaded, and at work."""
        wanted = self._files() + count
        until(lambda: self._files() >= wanted or self._over(), f"{wanted} samples", patience=PATIENCE)
        if self._files() < wanted:
            raise AssertionError(f"the run is over before there were {wanted} samples")

    def _over(self) -> bool:
        """Tell whether there has been a run, and none goes on."""
        return bool(runs.folders(self.lab.workdir)) and self.newest() is None

    @contextlib.contextmanager
    def held(self, who: str, then: signal.Signals = signal.SIGCONT) -> Iterator[None]:
        """Stop processes of the run meanwhile."""
        found = self.family()[who]
        self.note(bool(found), f"there was no {who}")
        for process in found:
            processes.send(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in found:
                processes.send(process, then)

    def hangs(self) -> int:
        """Count the hangs that supervisors have noticed: a load on a machine with much else to do may seem one, too."""
        found = [Path(run.events) for run in runs.folders(self.lab.workdir)]
        return sum(path.read_text().count('"event":"hang"') for path in found if path.exists())
