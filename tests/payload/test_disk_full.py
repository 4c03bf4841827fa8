"""Full file systems: the run ends with a clear cause, every file is whole, and goes on once there is room."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import status
from remote.host import processes
from remote.paths import Run
from remote.run import room
from remote.schema import Hooks, Retry, VerifyAnswer, VerifyRequest
from tests.payload.pretended import job
from tests.running import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPTS = [[number % 900 + 1] * 40 for number in range(60)]


@contextlib.contextmanager
def small(place: Path, size: str) -> Iterator[Path]:
    """Mount a small file system."""
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip() or 'not root'}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room there is."""
    path = folder / "fill"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return path


@pytest.fixture
def output(tmp_path: Path) -> Iterator[Path]:
    with small(tmp_path / "out", "96k") as place:
        yield place


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give a small file system that a workdir is on."""
    with small(tmp_path / "disk", "24m") as place:
        yield place


@pytest.fixture
def cramped(disk: Path, python: str) -> Iterator[Lab]:
    made = Lab(disk, python=python)
    yield made
    left = made.clean_up()
    assert not left, f"left running: {left}"


def test_a_full_output_ends_the_run_with_whole_files_and_extract_goes_on_with_room(lab: Lab, output: Path) -> None:
    work = job(lab, PROMPTS, batch_size=4, output=str(output))
    answer = lab.launch(work)
    assert (answer.outcome, answer.message) == ("started", "")
    ended = lab.ended(lab.run(answer.run or ""))
    assert (ended.phase, ended.cause, ended.kind, ended.attempts) == ("failed", "disk-full", "fatal", 1)
    assert "No space left on device" in (ended.root_line or "")
    assert "Free space" in ended.advice
    assert not list(output.glob(".data_*"))
    request = VerifyRequest(job=work)
    found = lab.host.call("verify", request, VerifyAnswer, bundle=lab.bundle, deadline=30.0)
    assert 0 < found.valid < len(PROMPTS)
    # A file may stand without its line: the disk was full between the two. It is whole, and is adopted.
    assert found.damaged == sum("no line" in finding.message for finding in found.findings)
    kept = {path.name: path.stat().st_ino for path in output.glob("data_*.pt")}
    subprocess.run(["mount", "-o", "remount,size=4m", str(output)], check=True)
    again = lab.launch(work)
    assert lab.ended(lab.run(again.run or "")).phase == "done"
    assert {name: (output / name).stat().st_ino for name in kept} == kept
    found = lab.host.call("verify", request, VerifyAnswer, bundle=lab.bundle, deadline=30.0)
    assert (found.valid, found.findings) == (len(PROMPTS), ())


def test_a_full_workdir_ends_the_run_and_its_end_is_written_all_the_same(cramped: Lab, tmp_path: Path) -> None:
    """A program that does not care goes on when it can log nothing; nobody could follow what it does."""
    out = tmp_path / "elsewhere"
    run = cramped.start("echo up; while :; do echo more; sleep 0.1; done", output=str(out))
    cramped.logged(run, "up")
    filled = fill(cramped.root)
    ended = cramped.ended(run)
    assert (ended.phase, ended.cause, ended.left_running) == ("failed", "disk-full", ())
    assert str(run.root) in (ended.root_line or "")
    assert processes.of_run(run) == []
    (told,) = cramped.status(run.id)
    assert (told.phase, told.cause) == ("failed", "disk-full")
    assert not Path(run.ballast).exists()
    filled.unlink()
    cramped.ended(cramped.start("true", output=str(out)))


def test_an_attempt_that_dies_without_a_word_on_a_full_disk_is_not_tried_again(cramped: Lab, tmp_path: Path) -> None:
    filler = cramped.root / "fill"
    script = f"dd if=/dev/zero of={filler} bs=4k 2>/dev/null; exit 1"
    run = cramped.start(script, output=str(tmp_path / "elsewhere"), retry=Retry(backoff=0.05))
    ended = cramped.ended(run)
    assert (ended.cause, ended.attempts) == ("disk-full", 1)
    assert "no space left on the file system of" in (ended.root_line or "")


def test_a_launch_on_a_full_workdir_is_refused_and_leaves_nothing(cramped: Lab, tmp_path: Path) -> None:
    cramped.ended(cramped.start("true", output=str(tmp_path / "elsewhere")))
    before = sorted(path.name for path in (Path(cramped.workdir) / "runs").iterdir())
    filled = fill(cramped.root)
    answer = cramped.launch(cramped.job("true", output=str(tmp_path / "elsewhere")))
    assert answer.outcome == "refused"
    assert "No space left on device" in answer.message
    assert "free space" in answer.message
    filled.unlink()
    after = sorted(path.name for path in (Path(cramped.workdir) / "runs").iterdir())
    assert after == before


def test_status_knows_a_supervisor_that_cannot_write_down_how_it_goes_on(lab: Lab, disk: Path) -> None:
    run = lab.start("sleep 60")
    state = dataclasses.replace(lab.state(run), heartbeat=time.time() - 100)
    snapshot = dataclasses.replace(status.runs.look(run), state=state, run=Run(PurePosixPath(disk)))
    assert "has not been heard of" in (status.judge(snapshot, now=time.time())[1] or "")
    fill(disk)
    assert f"disk full: no space left on the file system of {disk}" in (
        status.judge(snapshot, now=time.time())[1] or ""
    )
    lab.stop(run.id)
    lab.ended(run)


def test_the_ballast_is_room_indeed(disk: Path) -> None:
    run = Run(PurePosixPath(disk))
    room.load_ballast(run)
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        (disk / "x").write_bytes(b"x" * 100_000)
    assert room.full([disk]) is not None
    room.drop_ballast(run)
    assert room.full([disk]) is None
    (disk / "x").write_bytes(b"x" * 100_000)
    assert (disk / "x").stat().st_size == 100_000


def test_a_disk_that_fills_up_while_outputs_are_verified_is_named(cramped: Lab) -> None:
    work = job(cramped, PROMPTS[:4], batch_size=4)
    with (cramped.root / "site" / "torch.py").open("a") as file:
        file.write("\nimport sys\nif 'verify-child' in sys.argv:\n")
        file.write(f"    with open({str(cramped.root / 'fill')!r}, 'wb', buffering=0) as file:\n")
        file.write("        try:\n            while True:\n                file.write(bytes(4096))\n")
        file.write("        except OSError:\n            pass\n")
    run = cramped.run(cramped.launch(work, hooks=Hooks(on_done=("true",))).run or "")
    ended = cramped.ended(run)
    assert (ended.phase, ended.cause, ended.kind) == ("failed", "disk-full", "fatal")
    assert f"no space left on the file system of {cramped.root}" in (ended.root_line or "")
    assert "Free space" in ended.advice
    assert ended.samples.done == 4
