from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote import wire
from remote.paths import ATTEMPT_ENV, EVENTS_ENV, RUN_ENV
from remote.schema import Job, LaunchRequest, VerifyAnswer, VerifyRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stack.conftest import Stack

TOTAL = 48
TOLERANCE = 0.02
DEADLINE = 300.0
pytestmark = pytest.mark.stack


class Run:
    """One run folder; attempts in it are started as the supervisor starts them."""

    def __init__(self, stack: Stack, root: Path, job: Job) -> None:
        root.mkdir()
        self.stack, self.root, self.job = stack, root, job
        self.number = 0
        request = LaunchRequest(job=job, bundle="b", fingerprint="f")
        (root / "job.json").write_text(wire.dumps(request))

    def start(self) -> subprocess.Popen[bytes]:
        self.number += 1
        marks = {RUN_ENV: str(self.root), EVENTS_ENV: str(self._events), ATTEMPT_ENV: str(self.number)}
        with (self.root / "log").open("ab") as log:
            return subprocess.Popen(
                [self.stack.python, "-m", "remote", "attempt"],
                cwd=self.root, env=self.stack.environment(**marks), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def finish(self) -> int:
        process = self.start()
        try:
            return process.wait(DEADLINE)
        finally:
            end(process)

    def wait_until(self, process: subprocess.Popen[bytes], told: Callable[[dict[str, Any]], bool]) -> None:
        until = time.monotonic() + DEADLINE
        while not any(told(event) for event in self.events()):
            assert process.poll() is None, self.log()
            assert time.monotonic() < until, self.log()
            time.sleep(0.002)

    def events(self) -> list[dict[str, Any]]:
        if not self._events.exists():
            return []
        return [json.loads(line) for line in self._events.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def plan(self) -> dict[str, Any]:
        (plan,) = [event for event in self.events() if event["event"] == "plan"]
        return plan

    def log(self) -> str:
        return (self.root / "log").read_text()[-4000:]

    @property
    def _events(self) -> Path:
        return self.root / f"attempt-{self.number}.events"


def end(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of a session, and see it gone, its shared memory too: kill -9 leaves that behind."""
    shared = shared_memory(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for path in shared:
        path.unlink(missing_ok=True)


def shared_memory(pid: int) -> set[Path]:
    """Give the shared memory that a process has mapped under a name."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return {Path(word) for word in maps.split() if word.startswith("/dev/shm/")}


def verify(stack: Stack, job: Job) -> VerifyAnswer:
    """Ask the payload itself, as the controller does."""
    entry = str(stack.bundle.entry)
    done = subprocess.run(
        [stack.python, "-I", "-B", entry, "verify"],
        input=wire.dumps(VerifyRequest(job=job)).encode(), capture_output=True, timeout=DEADLINE, check=True,
    )  # fmt: skip
    return wire.loads(VerifyAnswer, done.stdout.partition(b"\n")[2])


@pytest.fixture(scope="module")
def killed(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Run, dict[str, tuple[int, str]]]]:
    """Kill an attempt with -9 in the middle of its batches, then do what crashes do to its folder."""
    run = Run(stack, tmp_path_factory.mktemp("runs") / "run", stack.job)
    process = run.start()
    try:
        run.wait_until(process, lambda event: event["event"] == "progress" and event["done"] >= 12)
    finally:
        end(process)
    output = Path(stack.job.output)
    manifest = output / "manifest.jsonl"
    lines = [line for line in manifest.read_text().splitlines(keepends=True) if line.endswith("\n")]
    indexes = [json.loads(line)["index"] for line in lines]
    assert 12 <= len(indexes) < TOTAL, "the attempt was to be killed in the middle"
    gone, cut, forgotten, changed = indexes[:4]
    (output / f"data_{gone}.pt").unlink()
    os.truncate(output / f"data_{cut}.pt", 1000)
    # A file that stands without its line, sound (adopted) or not whole (computed again); a torn last line.
    kept = [line for line in lines if json.loads(line)["index"] not in {forgotten, changed}]
    manifest.write_text("".join(kept) + lines[0][: len(lines[0]) // 2])
    os.truncate(output / f"data_{changed}.pt", 3000)
    (output / f".data_{gone}.pt.abc.tmp").write_bytes(b"half a file of an attempt that was killed")
    stand = {path.name: identity(path) for path in output.glob("data_*.pt")}
    for lost in (cut, changed):
        del stand[f"data_{lost}.pt"]
    yield run, stand
    shutil.rmtree(output)


def identity(path: Path) -> tuple[int, str]:
    return path.stat().st_ino, str(path.stat().st_mtime_ns)


@pytest.fixture(scope="module")
def resumed(killed: tuple[Run, dict[str, tuple[int, str]]]) -> Run:
    """Let a second attempt do the rest."""
    run, _ = killed
    assert run.finish() == 0, run.log()
    return run


def test_the_next_attempt_computes_only_what_is_missing(
    resumed: Run, killed: tuple[Run, dict[str, tuple[int, str]]]
) -> None:
    _, stand = killed
    output = Path(resumed.job.output)
    assert resumed.plan() == {**resumed.plan(), "total": TOTAL, "done": len(stand)}
    assert {name: identity(output / name) for name in stand} == stand
    assert len(list(output.glob("data_*.pt"))) == TOTAL
    assert not list(output.glob(".data_*")), "what the killed attempt left half written"


def test_events_tell_the_attempt(resumed: Run) -> None:
    events = resumed.events()
    assert [event["phase"] for event in events if event["event"] == "phase"] == ["loading", "extracting", "verifying"]
    last = [event for event in events if event["event"] == "progress"][-1]
    assert (last["done"], last["failed"], last["total"]) == (TOTAL, 0, TOTAL)
    assert last["tokens"] == resumed.plan()["tokens_total"]


@pytest.fixture(scope="module")
def outputs(stack: Stack, resumed: Run) -> Any:
    return stack.script("output_check.py", stack.job.model, resumed.job.output, json.dumps(stack.job.layers))


def test_files_hold_the_states_of_their_own_tokens(outputs: Any) -> None:
    assert outputs["files"] == TOTAL
    assert max(outputs["by_layer"]) <= TOLERANCE
    assert outputs["dtypes"] == ["torch.bfloat16"]
    assert outputs["longest"] == 2047


def test_files_hold_no_more_than_their_states(outputs: Any) -> None:
    assert outputs["overhead"] < 8192


def test_the_trainer_takes_the_files(outputs: Any) -> None:
    assert outputs["trainer"] == {"samples": TOTAL, "hidden": [3 * 64, 64]}


def test_masks_are_those_that_speculators_makes(outputs: Any) -> None:
    assert 0 < outputs["trained"] < outputs["tokens"]


def test_verify_finds_every_sample_valid(stack: Stack, resumed: Run) -> None:
    answer = verify(stack, resumed.job)
    assert (answer.total, answer.valid, answer.findings) == (TOTAL, TOTAL, ())
    assert answer.tokens == resumed.plan()["tokens_total"]


def test_verify_names_every_bad_file(stack: Stack, resumed: Run, tmp_path: Path) -> None:
    output = tmp_path / "damaged"
    shutil.copytree(resumed.job.output, output)
    (output / "data_0.pt").unlink()
    flip(output / "data_1.pt")
    os.truncate(output / "data_2.pt", 500)
    (output / "data_3.pt").write_bytes((output / "data_4.pt").read_bytes())
    (output / "data_900.pt").write_bytes(b"not of this dataset")
    (output / "old").mkdir()
    (output / "old" / "model.ckpt").write_bytes(b"the trainer would take this too")
    answer = verify(stack, dataclasses.replace(resumed.job, output=str(output)))
    assert (answer.total, answer.valid) == (TOTAL, TOTAL - 4)
    assert (answer.missing, answer.damaged, answer.extra) == (1, 3, 2)
    named = {Path(finding.file or "").name for finding in answer.findings}
    assert named == {"data_0.pt", "data_1.pt", "data_2.pt", "data_3.pt", "data_900.pt", "model.ckpt"}
    assert all("run extract again" in finding.message for finding in answer.findings if finding.severity == "error")


def flip(path: Path) -> None:
    """Change one bit in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def test_other_layers_are_no_answer(stack: Stack, resumed: Run) -> None:
    answer = verify(stack, dataclasses.replace(resumed.job, layers=(1, 4, 6, 7)))
    assert (answer.valid, answer.damaged) == (0, TOTAL)
    assert "holds layers [2, 4, 6, 7], the job wants [1, 4, 6, 7]" in answer.findings[0].message


def test_a_sample_that_cannot_be_extracted_does_not_stop_the_rest(stack: Stack, resumed: Run, tmp_path: Path) -> None:
    """Nothing else is missing, so nothing is loaded: the answer takes seconds."""
    dataset = tmp_path / "more.jsonl"
    poison = {"input_ids": [11, 99_999], "loss_mask": [0, 1]}
    dataset.write_text(Path(stack.job.dataset).read_text() + json.dumps(poison) + "\n")
    run = Run(stack, tmp_path / "run", dataclasses.replace(resumed.job, dataset=str(dataset)))
    assert run.finish() == 10, run.log()
    (failed,) = [event for event in run.events() if event["event"] == "sample-failed"]
    assert failed["index"] == TOTAL
    assert failed["cause"].startswith(f"more.jsonl:{TOTAL + 1}: has token 99999")


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "more.jsonl:1: not JSON"), ('{"conversations": 3}', "more.jsonl:1: conversations: expected a list")],
)
def test_a_dataset_that_cannot_be_read_is_told_in_one_line(stack: Stack, tmp_path: Path, line: str, said: str) -> None:
    dataset = tmp_path / "more.jsonl"
    dataset.write_text(line + "\n")
    run = Run(stack, tmp_path / "run", dataclasses.replace(stack.job, dataset=str(dataset), output=str(tmp_path / "o")))
    assert run.finish() == 2
    assert said in run.log()
    assert "Traceback" not in run.log()
