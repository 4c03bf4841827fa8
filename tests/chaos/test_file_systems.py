"""Runs on the file systems that a host may have: with and without holes, counting and not counting their room."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local import runs as user_runs
from remote import launch
from remote.host import disk, trial
from remote.schema import Retry
from tests.chaos import pretend
from tests.running import Lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.pretend import Pretence

KNOWN = Path("/proc/filesystems").read_text().split() if Path("/proc/filesystems").exists() else []
CAN_MOUNT = os.geteuid() == 0 and shutil.which("mount") is not None
HOLES = {"tmpfs": True, "ramfs": False, "overlay": True, "ext2": True, "ext4": True}


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def mount(*words: str) -> None:
    """Mount, or skip the test where that is not allowed (a container without the right to)."""
    done = subprocess.run(["mount", *words], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")


@contextlib.contextmanager
def mounted(kind: str, root: Path) -> Iterator[Path]:
    """Give a folder on a file system of this kind."""
    place = root / "place"
    place.mkdir()
    if not CAN_MOUNT:
        pytest.skip("mounting is not allowed here")
    if kind not in KNOWN:
        pytest.skip(f"this kernel has no {kind}")
    with contextlib.ExitStack() as stack:
        if kind == "overlay":
            upper = root / "upper"
            upper.mkdir()
            mount("-t", "tmpfs", "upper", str(upper))
            stack.callback(run, "umount", "--lazy", str(upper))
            for name in ("lower", "over", "work"):
                (upper / name).mkdir()
            options = f"lowerdir={upper}/lower,upperdir={upper}/over,workdir={upper}/work"
            mount("-t", "overlay", "-o", options, "overlay", str(place))
        elif kind.startswith("ext"):
            if shutil.which(f"mkfs.{kind}") is None or not Path("/dev/loop-control").exists():
                pytest.skip(f"no mkfs.{kind} or no loop device here")
            image = root / "image"
            with image.open("wb") as file:
                file.truncate(64 << 20)
            run(f"mkfs.{kind}", "-q", "-F", str(image))
            mount("-o", "loop", str(image), str(place))
        else:
            mount("-t", kind, "none", str(place))
        stack.callback(run, "umount", "--lazy", str(place))
        yield place


@pytest.fixture(params=HOLES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    with mounted(request.param, tmp_path) as folder:
        yield request.param, folder


def events(run: Any, *names: str) -> list[str]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event["event"] for event in found if event["event"] in names]


def test_a_run_is_complete_and_true_wherever_it_writes(
    place: tuple[str, Path], tmp_path: Path, pretence: Pretence
) -> None:
    _, folder = place
    samples = pretend.dataset(6, random.Random(2))  # noqa: S311 - a dataset
    pretend.write_dataset(tmp_path / "data.jsonl", samples)
    pretence.furnish(folder)
    lab = Lab(folder, python=str(pretence.python))
    job = pretend.job(folder, lab.python, dataset=str(tmp_path / "data.jsonl"), env={})
    assert disk.disk(job.output).lacks == ""
    answer = lab.launch(job)
    assert (answer.outcome, answer.message) == ("started", "")
    ended = lab.ended(lab.run(answer.run or ""))
    assert (ended.phase, ended.code) == ("done", 0)
    assert pretend.complaints(Path(job.output), samples) == []
    told = user_runs.verify(lab.host, job, bundle=lab.bundle)
    assert (told.valid, told.damaged, told.missing) == (6, 0, 0)
    assert not lab.clean_up()


def test_a_long_log_is_cut_or_kept_whole_and_the_run_is_tried_again(place: tuple[str, Path]) -> None:
    """A transient failure there must not be taken for a full disk where the file system counts no room."""
    kind, folder = place
    lab = Lab(folder)
    script = "[ -e ../../../tried ] && exit 0; touch ../../../tried; yes long | head -c 3000000; sleep 6; exit 75"
    job = lab.job(script, keep_log_mb=1, progress=None, retry=Retry(backoff=0.05))
    answer = lab.launch(job)
    run = lab.run(answer.run or "")
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts) == ("done", 2)
    assert events(run, "log-trimmed", "log-kept-whole") == ["log-trimmed" if HOLES[kind] else "log-kept-whole"]
    assert Path(run.log).stat().st_size >= 3000000
    assert not lab.clean_up()


def test_a_file_system_that_counts_no_room_is_not_full(tmp_path: Path) -> None:
    with mounted("ramfs", tmp_path) as folder:
        found = disk.disk(str(folder / "out"))
        assert found.free > 1 << 60
        assert (found.writable, found.lacks) == (True, "")


def refuse(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("fcntl.flock", "locking a file (flock) (No locks available)"),
        ("os.replace", "replacing a file whole (write, fsync, rename) (No locks available)"),
        ("os.fchmod", "replacing a file whole (write, fsync, rename) (No locks available)"),
        ("os.fsync", "replacing a file whole (write, fsync, rename) (No locks available)"),
    ],
)
def test_what_a_file_system_cannot_do_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, what: str
) -> None:
    """No file system here refuses these; some of the network's do."""
    module = {"fcntl": fcntl, "os": os}[function.partition(".")[0]]
    monkeypatch.setattr(module, function.partition(".")[2], refuse)
    assert trial.lacks(tmp_path) == what
    assert list(tmp_path.iterdir()) == []


def test_locks_that_exclude_nobody_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert trial.lacks(tmp_path) == "locking a file (flock) (two hold the same lock)"


def test_a_full_disk_lacks_room_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert trial.lacks(tmp_path) == ""


def test_a_folder_without_a_lock_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path)
    monkeypatch.setattr(fcntl, "flock", refuse)
    answer = launch.answer(lab.request(lab.job("true")))
    assert answer.outcome == "refused"
    assert "cannot be written: No locks available; choose another `output`" in answer.message
    assert lab.status() == ()
    lab.clean_up()
