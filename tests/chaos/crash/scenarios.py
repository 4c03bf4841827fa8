"""What is done and killed at every point, and what must hold afterwards: first as it was left, then after resuming.

Runs under the pretended host's Python, with the bundle's payload on the path: `torch` is the stand-in.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import time
from array import array
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import torch
from speculators.data_generation import vllm_hidden_states_generator as generator

from remote import attempt, files, install, launch, locks, status, supervise, wire
from remote.host import processes, sockets
from remote.paths import EVENTS_ENV, RUN_ENV, Output, Run, Workdir
from remote.prompts.tokens import Tokens
from remote.results import outputs, samples, verify_child
from remote.run import runs
from remote.run.events import EventLog, parse
from remote.run.ledger import Ledger
from remote.schema import Exit, Job, LaunchRequest, StatusRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT, LAYERS, PATIENCE = 3, (2, 5), 40.0


class Scenario:
    """One thing that is done in a folder of its own."""

    quick = True  # judged at once; else runs are started and waited for

    def __init__(self, root: Path, python: str, bundles: Path) -> None:
        self.root = root
        self.output = Output(PurePosixPath(root / "out"))
        lines = [json.dumps({"input_ids": ids(index), "loss_mask": [1] * len(ids(index))}) for index in range(COUNT)]
        (root / "data.jsonl").write_text("\n".join(lines))
        (root / "work").mkdir()
        (root / "work" / "bundles").symlink_to(bundles)
        self.job = Job(
            name="crash", engine="speculators", python=python, workdir=str(root / "work"),
            output=str(self.output.root), model=str(root), dataset=str(root / "data.jsonl"), layers=LAYERS,
            batch_size=2,
        )  # fmt: skip
        self.request = LaunchRequest(job=self.job, bundle=next(bundles.iterdir()).name, fingerprint="f")
        self.prepare()

    def prepare(self) -> None:
        """Make what stands before."""
        Path(self.output.root).mkdir()

    def act(self) -> object:
        """Do it; in a process that will be killed."""
        raise NotImplementedError

    def problems(self) -> Iterator[str]:
        """Say what is wrong with what was left, resume, and say what is wrong then."""
        raise NotImplementedError

    def run_folder(self) -> Run:
        """Give the folder of a run with its job in it."""
        return launch._make_folder(self.request)

    # ---- the output folder -------------------------------------------------------------------------------------------

    def torn_samples(self) -> Iterator[str]:
        """Say which sample files, as the trainer would take them, are not whole."""
        for path in sorted(Path(self.output.root).iterdir()) if Path(self.output.root).is_dir() else ():
            if path.name.endswith("pt"):
                try:
                    samples.load(path)
                except samples.SampleInvalid as error:
                    yield f"{path.name} {error}"

    def resumed(self) -> Iterator[str]:
        """Write what is missing as an attempt does, and say what is wrong with the folder then."""
        wanted = [tokens(index) for index in range(COUNT)]
        for missing in outputs.find_missing(self.output, wanted, LAYERS).samples:
            outputs.write(self.output, missing, states(missing), LAYERS)
        yield from self.finished()

    def finished(self) -> Iterator[str]:
        """Say what is wrong with a folder that should be complete."""
        answer = verify_child.verified(self.job)
        if (answer.total, answer.valid, answer.extra) != (COUNT, COUNT, 0):
            yield f"verify says {answer}"
        names = {path.name for path in Path(self.output.root).iterdir()}
        known = {*(f"data_{index}.pt" for index in range(COUNT)), "manifest.jsonl", ".prudent-gate.lock"}
        if strangers := names - known:
            yield f"left behind: {sorted(strangers)}"

    # ---- runs --------------------------------------------------------------------------------------------------------

    def run_again(self) -> Iterator[str]:
        """Launch as a user would, wait for the end, and say what is wrong then."""
        status.answer(StatusRequest(workdir=self.job.workdir))
        for _ in range(3):
            answer = launch.answer(self.request)
            if answer.outcome == "refused":
                yield f"refused: {answer.message}"
                return
            run = Run(Workdir(PurePosixPath(self.job.workdir)).runs / str(answer.run))
            ended = self._wait(run)
            if ended is None or ended.phase == "done":
                break
        if ended is None or (ended.phase, ended.code) != ("done", 0):
            yield f"{run.id} ended so: {ended}, {Path(run.log).read_text()[-500:] if Path(run.log).exists() else ''}"
            return
        yield from self.finished()
        if folders := sorted(path.name for path in Path(os.environ["TMPDIR"]).glob(f"{sockets.PREFIX}*")):
            yield f"folders of sockets left behind: {folders}"
        for known in runs.folders(self.job.workdir):
            if left := processes.of_run(known):
                yield f"left running of {known.id}: {left}"
            yield from numbering(known, torn=known.id != run.id)

    def _wait(self, run: Run) -> Exit | None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            snapshot = runs.look(run)
            if snapshot.state is not None and not runs.owned(snapshot.state):
                return runs.look(run).exit
            time.sleep(0.02)
        return None


class WriteSample(Scenario):
    """A sample's file and its line, beside one that stands."""

    def prepare(self) -> None:
        super().prepare()
        outputs.write(self.output, tokens(0), states(tokens(0)), LAYERS)

    def act(self) -> object:
        return outputs.write(self.output, tokens(1), states(tokens(1)), LAYERS)

    def problems(self) -> Iterator[str]:
        yield from self.torn_samples()
        yield from self.resumed()


class ReplaceSample(WriteSample):
    """A sample's file in place of a damaged one, behind a torn line of the manifest."""

    def prepare(self) -> None:
        super().prepare()
        outputs.write(self.output, tokens(1), states(tokens(1)), LAYERS)
        os.truncate(self.output.sample(1), 30)
        with Path(self.output.manifest).open("a") as file:
            file.write('{"schema":1,"ind')

    def problems(self) -> Iterator[str]:
        if 1 in {tokens.index for tokens in self._missing()}:
            Path(self.output.sample(1)).unlink(missing_ok=True)
        yield from self.torn_samples()
        yield from self.resumed()

    def _missing(self) -> tuple[Tokens, ...]:
        entries, sizes = outputs.read_manifest(self.output), outputs.sample_sizes(self.output)
        return () if outputs.stands(entries.get(1), tokens(1), sizes.get(1), LAYERS) else (tokens(1),)


class Adopt(WriteSample):
    """The lines of files that stand without one."""

    def prepare(self) -> None:
        super().prepare()
        first = Path(self.output.manifest).read_bytes()
        outputs.write(self.output, tokens(1), states(tokens(1)), LAYERS)
        outputs.write(self.output, tokens(2), states(tokens(2)), LAYERS)
        Path(self.output.manifest).write_bytes(first)

    def act(self) -> object:
        return outputs.find_missing(self.output, [tokens(index) for index in range(COUNT)], LAYERS)


class KeepLedger(Scenario):
    """State and events, as the supervisor keeps them."""

    def prepare(self) -> None:
        super().prepare()
        self.run = self.run_folder()
        ledger = Ledger(self.run, str(self.output.root))
        ledger.change(phase="loading", attempt=1)
        ledger.tell("attempt", pid=1)

    def act(self) -> object:
        ledger = Ledger(self.run, str(self.output.root))
        for done in range(1, 4):
            ledger.hear({"event": "progress", "done": done, "total": 3, "failed": 0})
            ledger.change(phase="extracting")
        return files.replace(self.run.exit, wire.dumps(Exit(phase="done", code=0, ended=1.0, attempts=1)).encode())

    def problems(self) -> Iterator[str]:
        snapshot = runs.look(self.run)
        if snapshot.faults or snapshot.state is None or snapshot.request is None:
            yield f"cannot be understood: {snapshot}"
        if snapshot.exit is not None and snapshot.exit.phase != "done":
            yield f"a strange end: {snapshot.exit}"
        yield from numbering(self.run, torn=True)
        EventLog(self.run.events, clock=time.time).add("after", 1, {})
        yield from numbering(self.run, torn=True)
        if numbers(self.run)[-1][1] != "after":
            yield "the next event was not appended"


class WholeAttempt(Scenario):
    """A whole attempt, from an empty folder to its last event."""

    def prepare(self) -> None:
        super().prepare()
        self.run = self.run_folder()

    def act(self) -> object:
        os.chdir(self.run.root)
        os.environ[EVENTS_ENV] = str(self.run.attempt_events(1))
        os.environ[RUN_ENV] = processes.mark(self.run)
        log = os.open(self.run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        code = attempt._attempt()
        if code:
            raise RuntimeError(f"the attempt ended with {code}")
        return None

    def problems(self) -> Iterator[str]:
        processes.end(lambda: processes.of_run(self.run), grace=0.0)
        yield from self.torn_samples()
        events = Path(self.run.attempt_events(1))
        lines = events.read_bytes().split(b"\n") if events.exists() else [b""]
        if any(parse(line) is None for line in lines[:-1]):
            yield f"events that cannot be read: {lines}"
        yield from self.resumed()


class Launch(Scenario):
    """The start of a run, up to the answer."""

    quick = False

    def prepare(self) -> None:
        """Leave the output folder to be made as well."""

    def act(self) -> object:
        return launch.answer(self.request)

    def problems(self) -> Iterator[str]:
        yield from self.torn_samples()
        yield from self.run_again()


class Supervise(Launch):
    """A whole run, as its supervisor lives it."""

    def prepare(self) -> None:
        Path(self.output.root).mkdir()
        self.run = self.run_folder()

    def act(self) -> object:
        lock = locks.take(self.output)
        assert lock is not None
        locks.sign(lock, locks.Holder(self.run.id, self.job.workdir))
        _, handshake = os.pipe()
        confided, telling = os.pipe()
        os.write(telling, b"{}")
        os.close(telling)
        os.dup2(confided, 0)
        log = os.open(self.run.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        return supervise.main([str(self.run.root), str(handshake), str(lock)])

    def problems(self) -> Iterator[str]:
        snapshot = runs.look(self.run)
        if snapshot.faults:
            yield f"cannot be understood: {snapshot.faults}"
        yield from super().problems()


class Install(Scenario):
    """A bundle, unpacked into its place."""

    def prepare(self) -> None:
        parts = {"payload/remote/__main__.py": b"print()", "vendor/one.py": b"x" * 9000}
        named = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
        parts["bundle.json"] = json.dumps({"schema": 1, "files": named}).encode()
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, data in parts.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        self.parts, self.data = parts, raw.getvalue()
        self.id = hashlib.sha256(parts["bundle.json"]).hexdigest()
        self.workdir = self.root / "elsewhere"

    def act(self) -> object:
        return install.install(str(self.workdir), self.id, hashlib.sha256(self.data).hexdigest(), self.data)

    def problems(self) -> Iterator[str]:
        place = self.workdir / "bundles" / self.id
        if place.exists():
            yield from self._incomplete(place)
        again: Any = self.act()
        if again["outcome"] not in ("installed", "present"):
            yield f"the next push is answered {again}"
        yield from self._incomplete(place)

    def _incomplete(self, place: Path) -> Iterator[str]:
        for name, data in self.parts.items():
            if not (place / name).exists() or (place / name).read_bytes() != data:
                yield f"{name} is not whole in its place"


SCENARIOS: dict[str, type[Scenario]] = {
    "write a sample": WriteSample,
    "replace a damaged sample": ReplaceSample,
    "adopt": Adopt,
    "keep the ledger": KeepLedger,
    "install a bundle": Install,
    "a whole attempt": WholeAttempt,
    "launch": Launch,
    "supervise": Supervise,
}


def ids(index: int) -> list[int]:
    """Give the tokens of a sample."""
    return [index + 1, 7, 9][: 1 + index]


def tokens(index: int) -> Tokens:
    """Give a sample as the attempt knows it."""
    return Tokens(index, f"data.jsonl:{index + 1}", array("i", ids(index)), bytes([1] * len(ids(index))))


def states(one: Tokens) -> list[Any]:
    """Give what an engine would give for it."""
    return [torch.tensor(table) for table in generator.states(one.input_ids.tolist(), list(LAYERS))]


def numbers(run: Run) -> list[tuple[int, str]]:
    """Give number and name of each event that can be read."""
    data = Path(run.events).read_bytes() if Path(run.events).exists() else b""
    return [(event["n"], event["event"]) for line in data.split(b"\n") if (event := parse(line)) is not None]


def numbering(run: Run, *, torn: bool) -> Iterator[str]:
    """Say what is wrong with the numbers of a run's events."""
    found = [number for number, _ in numbers(run)]
    if found != list(range(1, len(found) + 1)):
        yield f"events of {run.id} are numbered {found}"
    data = Path(run.events).read_bytes() if Path(run.events).exists() else b""
    if not torn and any(parse(line) is None for line in data.split(b"\n")[:-1]):
        yield f"events of {run.id} that cannot be read"


def fresh(cls: type[Scenario], root: Path, python: str, bundles: Path) -> Scenario:
    """Give a scenario in an empty folder."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return cls(root, python, bundles)
