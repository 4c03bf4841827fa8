"""Several loopback hosts, each with an sshd, a home and outputs of its own, and a laptop whose `fab` knows them all.

The engine's libraries are stand-ins (tests/chaos/standin); launch, supervisor, attempt, census and verify are real. The
gate's own tests are elsewhere: here a step in the chain's first place lets every host pass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

from fabric.config import Config
from fabric.main import Fab
from invoke import Collection

import fabfile
from local.executor import Executor
from local.gate import GateOutcome
from local.steps import OnHosts
from remote.host import processes
from remote.run import runs
from remote.schema import Verdict
from tests.chaos import pretend
from tests.running import until
from tests.ssh import embedded, sshd
from tests.ssh.servers import dead_port, make_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from local.session import Session
    from remote.run.runs import Snapshot
    from tests.ssh.servers import Server

SAMPLES = 24


def passes(session: Session, bundle: str = "") -> None:
    """Let a host pass its gate, with a bundle that is there (the bare payload where none is named)."""
    bundle = bundle or session.payload
    verdict = Verdict(fingerprint="f", bundle=bundle, verdict="pass", level="rehearsal", decided=0.0, checks=())
    session.outcome = GateOutcome(verdict=verdict, bundle=bundle, cached=False, facts=None, complete=True)


@contextlib.contextmanager
def machines(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Machine]]:
    """Run a server for each name, all opened by the key `folder/key`; nothing of theirs runs on afterwards."""
    running = sshd.running if sshd.program() else embedded.running
    make_key(folder / "key")
    with contextlib.ExitStack() as stack:
        made = {}
        for name in names:
            (folder / name).mkdir()
            for end in ("", ".pub"):
                shutil.copy(folder / f"key{end}", folder / name / f"user_key{end}")
            made[name] = Machine(stack.enter_context(running(folder / name)))
        try:
            yield made
        finally:
            for machine in made.values():
                machine.clean_up()


@dataclasses.dataclass
class Machine:
    """One host, as whoever sits at it sees it."""

    server: Server

    @property
    def output(self) -> Path:
        return self.server.home / "out"

    @property
    def workdir(self) -> str:
        return str(self.server.home / "work")

    @property
    def files(self) -> dict[int, int]:
        """Give the samples that stand here, each with its inode."""
        return {int(path.stem.removeprefix("data_")): path.stat().st_ino for path in self.output.glob("data_*.pt")}

    @property
    def runs(self) -> list[Snapshot]:
        """Give the runs, newest first."""
        return [runs.look(run) for run in runs.folders(self.workdir)]

    def shards(self) -> list[str | None]:
        """Give the shards of the runs, newest first."""
        return [seen.request.shard for seen in self.runs if seen.request]

    def kill(self) -> None:
        """Kill the newest run as a host that breaks down does: supervisor and attempt, without a word."""
        seen = self.runs[0]
        assert seen.state is not None
        os.kill(seen.state.pid, signal.SIGKILL)
        until(lambda: not processes.alive(seen.state.pid, seen.state.pid_started), "the supervisor's end")  # type: ignore[union-attr]
        processes.end(lambda: processes.of_run(seen.run), grace=0.0)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold the newest run's work, however slow the machine is on which a test runs."""
        seen = self.runs[0]
        held = [one.pid for one in processes.of_run(seen.run) if seen.state is None or one.pid != seen.state.pid]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in held:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def clean_up(self) -> None:
        """End what a test has left running."""
        for seen in self.runs:
            if seen.state is not None and runs.owned(seen.state):
                os.kill(seen.state.pid, signal.SIGKILL)
                until(lambda state=seen.state: not processes.alive(state.pid, state.pid_started))  # type: ignore[misc]
            processes.end(lambda run=seen.run: processes.of_run(run), grace=0.0)  # type: ignore[misc]


@dataclasses.dataclass
class Fleet:
    """The hosts by name, and the laptop's inventory of them."""

    folder: Path
    machines: dict[str, Machine]
    samples: list[pretend.Sample]
    python: Path

    @property
    def dataset(self) -> Path:
        return self.folder / "data.jsonl"

    def write(
        self, *, seconds: float = 0.01, dead: bool = False, more: str = "", slow: Mapping[str, float] | None = None
    ) -> None:
        """Write dataset and inventory; `more` are further lines of the job, `slow` hosts have seconds of their own."""
        self.folder.joinpath("model").mkdir(exist_ok=True)
        pretend.write_dataset(self.dataset, self.samples)
        hosts = {name: machine.server.port for name, machine in self.machines.items()}
        hosts |= {"dead": dead_port()} if dead else {}
        tables = "".join(
            f'[hosts.{name}]\naddress = "127.0.0.1"\nport = {port}\nusd_per_hour = 36.0\n'
            for name, port in hosts.items()
        )
        paces = {name: (slow or {}).get(name, seconds) for name in self.machines}
        for name, pace in paces.items():
            table = f"[hosts.{name}]\n"
            tables = tables.replace(table, f"{table}env = {{ STANDIN_SECONDS = {pace} }}\n")
        (self.folder / "inventory.toml").write_text(
            f"""
[defaults]
user = "{next(iter(self.machines.values())).server.user}"
ssh_config = "none"
identity_file = "{self.folder}/key"
python = "{self.python}"
workdir = "~/work"
{tables}
[jobs.states]
engine = "speculators"
model = "{self.folder}/model"
dataset = "{self.dataset}"
output = "~/out"
layers = {list(pretend.LAYERS)}
batch_size = 2
device = "cpu"
retry = {{ transient = 0 }}
{more}
""",
            encoding="utf-8",
        )

    def fab(self, words: str, gate: Callable[[Session], None] = passes) -> int:
        """Run `fab`; gives the exit code. The step `pass` stands for a gate."""
        tasks = (OnHosts(gate, name="pass"), fabfile.extract, fabfile.verify, fabfile.stop, fabfile.status)
        program: Any = Fab(executor_class=Executor, config_class=Config, namespace=Collection(*tasks))
        try:
            program.run(["fab", *words.split()])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    def at_work(self, name: str, files: int = 1) -> None:
        """Wait until a host has finished so many samples."""
        until(lambda: len(self.machines[name].files) >= files, f"{files} samples on {name}")

    def standing(self) -> list[int]:
        """Give the samples that stand somewhere and hold what they must, once for each host."""
        return sorted(
            sample.index
            for machine in self.machines.values()
            for sample in self.samples
            if sample.stands(machine.output)
        )

    def whole(self) -> bool:
        """Say whether every sample stands, and on one host alone."""
        return self.standing() == [sample.index for sample in self.samples]


def plan_of(text: str) -> dict[str, Any]:
    """Give the document that a dry run has written."""
    document: dict[str, Any] = json.loads(text)
    assert document["schema"] == 1
    return document
