"""The vital signs that a supervisor notes: whole lines, bounded, and nothing that hangs can hold or end a run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from remote import wire
from remote.run import vitals
from remote.run.ledger import Ledger
from remote.schema import Vitals
from tests.payload.gpu_fakes import program
from tests.running import Lab, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.paths import Run

ROWS = "0, NVIDIA B200, 97, 161243, 183359, 61, Disabled"
HANG = f"{10_000 + os.getpid()}.1"  # seconds: no other process of the tests sleeps as long


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a folder, first on the PATH of the host, for a fake nvidia-smi; what hangs there is ended."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield folder
    for process in sleepers():
        process.send_signal(signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, 0)


def sleepers() -> list[psutil.Process]:
    """Give the fakes of this process that hang: a sleep of a length that nobody else sleeps."""
    return [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", HANG]]


def notes(run: Run) -> list[Vitals]:
    try:
        data = Path(run.vitals).read_bytes()
    except FileNotFoundError:
        return []
    return [wire.loads(Vitals, line) for line in data.splitlines()]


def test_a_run_notes_its_vital_signs(lab: Lab, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    run = lab.start("echo done 1/2; sleep 600", device="cuda")
    (note,) = until(lambda: notes(run))
    assert [(card.utilisation, card.temperature) for card in note.gpus] == [(97, 61)]
    assert (note.gpu_error, note.attempt) == (None, 1)
    assert (note.disk_free or 0) > 0
    assert abs(note.time - time.time()) < 60
    lab.stop(run.id)
    assert lab.ended(run).left_running == ()


def test_a_job_without_cards_asks_for_none(lab: Lab, smi: Path) -> None:
    program(smi, f"touch {smi}/asked; echo '{ROWS}'")
    run = lab.start("sleep 600", device="cpu")
    (note,) = until(lambda: notes(run))
    assert (note.gpus, note.gpu_error) == ((), None)
    assert not (smi / "asked").exists()
    lab.stop(run.id)


def test_a_hung_nvidia_smi_is_no_part_of_the_run(lab: Lab, smi: Path) -> None:
    """It lives when the attempt ends: nobody waits for it, ends it, or takes it for something left running."""
    program(smi, f"exec sleep {HANG}")
    go = smi / "go"
    run = lab.start(f"while [ ! -e {go} ]; do sleep 0.05; done; echo well", device="cuda")
    until(sleepers)
    go.touch()
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.left_running) == ("done", 0, ())
    assert len(sleepers()) == 1


def test_a_run_that_is_stopped_leaves_the_hung_one_alone(lab: Lab, smi: Path) -> None:
    program(smi, f"exec sleep {HANG}")
    run = lab.start("sleep 600", device="cuda")
    until(sleepers)
    answer = lab.stop(run.id)
    assert (answer.outcome, answer.left) == ("stopped", ())
    assert lab.ended(run).left_running == ()


# ---- the recorder alone ----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run(lab: Lab) -> Run:
    folder = Path(lab.workdir) / "runs" / "20260101-000000-abcd"
    folder.mkdir(parents=True)
    return lab.run(folder.name)


def recorder(lab: Lab, run: Run, clock: Clock, apart: set[int] | None = None) -> vitals.Recorder:
    ledger = Ledger(run, str(lab.output))
    return vitals.Recorder(run, lab.job(device="cuda"), ledger, set() if apart is None else apart, clock=clock)


def noted(made: vitals.Recorder, run: Run, count: int) -> Vitals:
    def enough() -> list[Vitals]:
        made.tick()
        return notes(run) if len(notes(run)) >= count else []

    found: list[Vitals] = until(enough)
    while True:  # who was asked is ours: reap them as the supervisor does
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                break
        except ChildProcessError:
            break
    return found[-1]


def test_notes_are_thirty_seconds_apart(lab: Lab, run: Run, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    clock, apart = Clock(), set[int]()
    made = recorder(lab, run, clock, apart)
    noted(made, run, 1)
    assert apart == set()
    clock.now += vitals.EVERY - 0.1
    made.tick()
    made.tick()
    assert len(notes(run)) == 1
    clock.now += 0.2
    noted(made, run, 2)


def test_while_one_hangs_the_next_is_not_started_and_the_notes_go_on(lab: Lab, run: Run, smi: Path) -> None:
    program(smi, f"exec sleep {HANG}")
    clock, apart = Clock(), set[int]()
    made = recorder(lab, run, clock, apart)
    for count in range(1, 4):
        made.tick()
        until(sleepers)
        clock.now += vitals.PATIENCE + 0.1
        note = noted(made, run, count)
        assert note.gpus == ()
        assert "no answer from nvidia-smi" in (note.gpu_error or "")
        clock.now += vitals.EVERY
    (hung,) = sleepers()
    assert hung.pid in apart  # the question of the disk may still be on its way on a slow machine
    os.kill(hung.pid, signal.SIGKILL)
    os.waitpid(hung.pid, 0)
    program(smi, f"echo '{ROWS}'")
    noted(made, run, 4)
    clock.now += vitals.EVERY
    assert noted(made, run, 5).gpus[0].utilisation == 97
    assert hung.pid not in apart


def test_a_folder_that_takes_nothing_ends_nothing(lab: Lab, run: Run, smi: Path) -> None:
    program(smi, f"echo '{ROWS}'")
    Path(run.vitals).mkdir()
    clock = Clock()
    made = recorder(lab, run, clock)
    for _ in range(200):
        made.tick()
        clock.now += 1
    until(lambda: not [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE])
    while psutil.Process().children():
        os.waitpid(-1, 0)


def line(number: int) -> bytes:
    return json.dumps({"n": number}).encode() + b"\n"


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11])
def test_thinning_keeps_the_last_and_the_span(tmp_path: Path, count: int) -> None:
    file = tmp_path / "vitals.jsonl"
    file.write_bytes(b"".join(map(line, range(count))))
    vitals.thin(file)
    kept: list[Any] = [json.loads(one)["n"] for one in file.read_bytes().splitlines()]
    assert kept[-1] == count - 1
    assert kept[0] in (0, 1) if count > 1 else kept == [0]
    assert len(kept) == (count + 1) // 2


def test_the_file_stays_bounded(lab: Lab, run: Run, smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(smi, f"echo '{ROWS}'")
    monkeypatch.setattr(vitals, "LARGEST", 2000)
    clock = Clock()
    made = recorder(lab, run, clock)
    size = 0
    for _ in range(20):
        before = Path(run.vitals).stat().st_mtime_ns if Path(run.vitals).exists() else 0
        until(lambda: made.tick() or (Path(run.vitals).exists() and Path(run.vitals).stat().st_mtime_ns != before))  # type: ignore[func-returns-value]  # noqa: B023
        size = max(size, Path(run.vitals).stat().st_size)
        clock.now += vitals.EVERY
    noted(made, run, 1)
    assert size <= 2000
    assert len(notes(run)) > 2
