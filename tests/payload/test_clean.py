"""Verb `clean` on real folders: what goes, what never goes, links that lead out, a launch at the same moment."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import clean, inuse, launch, wire
from remote.host import processes
from remote.paths import Run, Workdir
from remote.run import runs
from remote.schema import CleanRequest, Exit, Job, LaunchRequest, State, Verdict

if TYPE_CHECKING:
    from remote.schema import CleanAnswer
    from tests.running import Lab

OLD = 30 * 86400.0
KEPT = "k" * 64
OLD_ONE = "0" * 64


def aged(path: Path, seconds: float = OLD) -> Path:
    os.utime(path, (time.time() - seconds,) * 2, follow_symlinks=False)
    return path


@dataclasses.dataclass
class Place:
    """A workdir with things in it."""

    root: Path

    @property
    def paths(self) -> Workdir:
        return Workdir(PurePosixPath(self.root))

    def bundle(self, name: str = OLD_ONE, age: float = OLD) -> Path:
        folder = Path(self.paths.bundle(name).root)
        (folder / "payload" / "remote").mkdir(parents=True)
        (folder / "payload" / "remote" / "__main__.py").write_text("pass\n")
        (folder / "bundle.json").write_text("{}")
        return aged(folder, age)

    def run(
        self, number: int, *, bundle: str = OLD_ONE, fingerprint: str = "ab" * 32, phase: str | None = "done",
        output: str = "/nowhere/out", state: bool = True,
    ) -> Run:  # fmt: skip
        run = self.paths.run(f"20260101-0000{number:02d}-abcd")
        Path(run.root).mkdir(parents=True)
        job = Job(name="j", engine="command", python="/bin/sh", workdir=str(self.root), output=output)
        Path(run.job).write_text(wire.dumps(LaunchRequest(job=job, bundle=bundle, fingerprint=fingerprint)))
        if state:
            told = State(
                run=run.id, phase="extracting", attempt=1, pid=1 << 22, pid_started=1.0, boot_id="gone",
                started=1.0, heartbeat=2.0, output=output,
            )  # fmt: skip
            Path(run.state).write_text(wire.dumps(told))
        if phase is not None:
            Path(run.exit).write_text(wire.dumps(Exit(phase=phase, code=0, ended=time.time() - OLD, attempts=1)))
        Path(run.log).write_bytes(b"x" * 10_000)
        return run

    def verdict(self, fingerprint: str, *, bundle: str = OLD_ONE, verdict: str = "pass", age: float = OLD) -> Path:
        file = Path(self.paths.verdict(fingerprint))
        file.parent.mkdir(exist_ok=True)
        made = Verdict(
            fingerprint=fingerprint, bundle=bundle, verdict=verdict, level="rehearsal", decided=1.0, checks=(),
            basis={"job": "j"},
        )  # fmt: skip
        file.write_text(wire.dumps(made))
        return aged(file, age)

    def clean(self, *, remove: bool = True, keep: int = 0) -> CleanAnswer:
        return clean.answer(CleanRequest(workdir=str(self.root), keep=keep, remove=remove))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "workdir"
    root.mkdir()
    return Place(root)


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def named(answer: CleanAnswer) -> list[tuple[str, str]]:
    return sorted((item.kind, Path(item.path).name) for item in answer.items)


def test_nothing_there_is_nothing_to_remove(tmp_path: Path) -> None:
    assert clean.answer(CleanRequest(workdir=str(tmp_path / "none"), remove=True)).items == ()
    assert Place(tmp_path).clean().items == ()
    (tmp_path / "file").touch()
    assert "Not a directory" in (clean.answer(CleanRequest(workdir=str(tmp_path / "file"))).trouble or "")


def test_looking_changes_nothing_and_removing_removes_what_was_shown(place: Place) -> None:
    place.bundle()
    for number in range(4):
        place.run(number)
    place.verdict("ab" * 32)
    place.verdict("cd" * 32, bundle=OLD_ONE, age=2 * OLD)
    before = tree(place.root)
    shown = place.clean(remove=False, keep=2)
    assert tree(place.root) == before
    assert named(shown) == [
        ("run", "20260101-000000-abcd"),
        ("run", "20260101-000001-abcd"),
        ("verdict", "cd" * 32 + ".json"),
    ]
    assert all(item.size > 0 and not item.gone for item in shown.items)
    done = place.clean(keep=2)
    assert named(done) == named(shown)
    assert [item.size for item in done.items] == [item.size for item in shown.items]
    assert all(item.gone and not item.trouble for item in done.items)
    assert (done.kept["run"], done.kept["bundle"], done.kept["verdict"]) == (2, 1, 1)
    assert place.clean(keep=2).items == ()
    assert not [name for name in tree(place.root) if ".gone" in name]


def test_bundles_of_runs_that_stay_and_of_latest_verdicts_stay(place: Place) -> None:
    place.bundle(OLD_ONE)
    for name in ("1", "2", "3", "4"):
        place.bundle(name * 64)
    place.run(1, bundle="1" * 64, fingerprint="11" * 32)
    place.verdict("11" * 32, bundle="2" * 64, age=3 * OLD)  # what the run was started on
    place.verdict("22" * 32, bundle="3" * 64, age=2 * OLD)  # the latest pass
    place.verdict("33" * 32, bundle="4" * 64, verdict="fail", age=OLD)  # the latest word
    assert named(place.clean(keep=1)) == [("bundle", OLD_ONE)]


def test_what_was_used_lately_stays(place: Place) -> None:
    place.bundle(OLD_ONE, age=60)
    assert place.clean().items == ()
    aged(place.root / "bundles" / OLD_ONE)
    entry = place.root / "bundles" / OLD_ONE / "payload" / "remote" / "__main__.py"
    inuse.mark(str(entry))  # as every verb of it does
    assert place.clean().items == ()


def test_a_verb_marks_its_bundle_as_used(lab: Lab) -> None:
    folder = aged(Path(Workdir(PurePosixPath(lab.workdir)).bundle(lab.bundle).root))
    entry = folder / "payload" / "remote" / "__main__.py"
    asked = json.dumps({"schema": 1, "workdir": lab.workdir}).encode()
    subprocess.run([sys.executable, "-I", "-B", str(entry), "status"], input=asked, check=True, capture_output=True)
    assert time.time() - folder.stat().st_mtime < 60


def test_a_bundle_that_a_process_works_with_stays(place: Place) -> None:
    folder = place.bundle()
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "PYTHONPATH": f"{folder}/overlay:/x"}) as process:
        try:
            assert place.clean().items == ()
        finally:
            process.kill()
    assert named(place.clean()) == [("bundle", OLD_ONE)]


def test_runs_that_go_on_are_lost_or_cannot_be_understood_stay(place: Place) -> None:
    place.bundle("1" * 64)
    lost = place.run(2, phase=None)  # its supervisor is gone, and no launch has come since
    garbled = place.run(1)
    Path(garbled.exit).write_bytes(b"{")
    answer = place.clean()
    assert [kind for kind, _ in named(answer)] == ["bundle"]
    assert Path(garbled.root).is_dir()
    assert Path(lost.root).is_dir()


def test_a_lost_run_counts_as_ended_once_a_later_launch_has_looked_after_it(place: Place) -> None:
    lost = place.run(1, phase=None)
    assert place.clean().items == ()
    place.run(2)
    assert ("run", lost.id) in named(place.clean())


def test_a_running_run_stays_with_its_bundle(lab: Lab) -> None:
    run = lab.start("sleep 60")
    aged(Path(Workdir(PurePosixPath(lab.workdir)).bundle(lab.bundle).root))
    assert clean.answer(CleanRequest(workdir=lab.workdir, keep=0, remove=True)).items == ()
    assert processes.of_run(run)
    assert lab.stop(run.id).outcome == "stopped"
    lab.ended(run)


def test_outputs_are_never_removed_wherever_they_lie(place: Place, tmp_path: Path) -> None:
    inside = Path(place.paths.run("20260101-000001-abcd").root) / "out"
    run = place.run(1, output=str(inside))
    inside.mkdir()
    (inside / "data_0.pt").write_bytes(b"precious")
    beside = tmp_path / "workdir" / "outputs" / "j"
    beside.mkdir(parents=True)
    (beside / "data_0.pt").write_bytes(b"precious")
    place.run(2, output=str(beside))
    answer = place.clean()
    assert [item.trouble for item in answer.items if Path(item.path).name == run.id] == [f"it holds outputs: {inside}"]
    assert (inside / "data_0.pt").read_bytes() == b"precious"
    assert (beside / "data_0.pt").read_bytes() == b"precious"


def test_leftovers_and_bytecode_of_bundles_that_are_gone_go(place: Place) -> None:
    place.bundle(KEPT, age=1)
    old, fresh = place.root / "bundles" / ".incoming-old", place.root / "bundles" / ".incoming-new"
    for folder in (old, fresh):
        folder.mkdir()
    aged(old)
    half = place.root / "bundles" / ".gone-1234-x"
    half.mkdir()
    cached = place.root / "cache" / f"pycache{place.root}" / "bundles"
    for name in (KEPT, OLD_ONE):
        (cached / name / "payload").mkdir(parents=True)
    assert named(place.clean()) == [("bytecode", OLD_ONE), ("leftover", ".gone-1234-x"), ("leftover", ".incoming-old")]
    assert fresh.is_dir()
    assert (cached / KEPT).is_dir()
    assert not (cached / OLD_ONE).exists()


@pytest.mark.parametrize("folder", ["bundles", "runs", "verdicts", "cache"])
def test_a_folder_that_is_a_link_is_left_alone(place: Place, tmp_path: Path, folder: str) -> None:
    place.bundle()
    place.run(1)
    place.verdict("ab" * 32)
    place.verdict("cd" * 32, age=2 * OLD)
    (place.root / "cache" / f"pycache{place.root}" / "bundles" / ("9" * 64)).mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (place.root / folder).rename(elsewhere)
    (place.root / folder).symlink_to(elsewhere)
    before = tree(elsewhere)
    place.clean()
    assert tree(elsewhere) == before


@pytest.mark.parametrize("kind", ["bundle", "run", "verdict", "leftover"])
def test_links_in_place_of_things_and_inside_them_are_never_followed(place: Place, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "precious"
    (precious / "deep").mkdir(parents=True)
    (precious / "deep" / "file").write_text("stays")
    shutil.copytree(place.run(1).root, precious / "run")
    names = {
        "bundle": f"bundles/{OLD_ONE}",
        "run": "runs/20260101-000009-abcd",
        "verdict": f"verdicts/{'ef' * 32}.json",
        "leftover": "bundles/.incoming-x",
    }
    link = place.root / names[kind]
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(precious / "run" if kind == "run" else precious)
    aged(link)
    inner = place.bundle("7" * 64)
    (inner / "out").symlink_to(precious)
    (inner / "payload" / "file").symlink_to(precious / "deep" / "file")
    aged(inner)
    place.clean()
    assert (precious / "deep" / "file").read_text() == "stays"
    assert (precious / "run" / "exit.json").is_file()
    assert not inner.exists()
    if kind == "run":
        assert link.is_symlink()


def test_a_thing_of_another_user_is_told_and_stays(place: Place) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(place.bundle(), 12345, 12345)
    (item,) = place.clean().items
    assert (item.gone, item.trouble) == (False, "it belongs to another user")
    assert (place.root / "bundles" / OLD_ONE).is_dir()


def test_folders_nested_without_end_are_told_and_hold_nothing_up(place: Place) -> None:
    deep, other, _ = place.run(1), place.run(2), place.run(3)
    folder = os.open(deep.root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    try:
        answer = clean.answer(CleanRequest(workdir=str(place.root), keep=1, remove=True))
        told = {Path(item.path).name: (item.gone, item.trouble) for item in answer.items if item.kind == "run"}
        assert told.pop(deep.id) in {(False, clean.TOO_DEEP), (False, "Too many open files")}
        assert told == {other.id: (True, "")}
    finally:
        subprocess.run(["rm", "-rf", deep.root], check=True)


def test_a_workdir_that_climbs_is_not_followed_out(tmp_path: Path) -> None:
    place = Place(tmp_path / "workdir")
    place.root.mkdir()
    outside = tmp_path / "bundles" / OLD_ONE
    outside.mkdir(parents=True)
    (place.root / "cache" / "pycache").mkdir(parents=True)
    spelled = f"{place.root}/../workdir"
    assert clean.answer(CleanRequest(workdir=spelled, keep=0, remove=True)).items == ()
    assert outside.is_dir()


def test_a_launch_under_way_is_waited_for_and_then_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.bundle()
    monkeypatch.setattr(clean, "PATIENCE", 0.2)
    with inuse.shared(place.root):
        answer = place.clean()
    assert "being started" in (answer.trouble or "")
    assert (place.root / "bundles" / OLD_ONE).is_dir()
    assert named(place.clean()) == [("bundle", OLD_ONE)]


def test_a_launch_waits_for_a_clean_and_is_refused_when_its_bundle_went(lab: Lab) -> None:
    root = Path(lab.workdir)
    bundle = Path(Workdir(PurePosixPath(lab.workdir)).bundle(lab.bundle).root)
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        answered = pool.submit(launch.answer, lab.request(lab.job("true")))
        threading.Event().wait(0.3)
        assert not answered.done()
        shutil.rmtree(bundle)
        os.close(held)
        answer = answered.result(30)
    assert answer.outcome == "refused"
    assert "not on the host (any more)" in answer.message
    assert runs.folders(lab.workdir) == []


@pytest.mark.parametrize("attempt", range(3))
def test_cleaning_and_launching_at_once_never_harms_a_run(lab: Lab, attempt: int) -> None:
    del attempt
    aged(Path(Workdir(PurePosixPath(lab.workdir)).bundle(lab.bundle).root))
    job = lab.job("echo up")
    with ThreadPoolExecutor(4) as pool:
        cleaned = [pool.submit(clean.answer, CleanRequest(workdir=lab.workdir, keep=0, remove=True)) for _ in range(3)]
        answer = pool.submit(launch.answer, lab.request(job)).result(60)
        [each.result(60) for each in cleaned]
    if answer.outcome == "started":
        run = lab.run(answer.run or "")
        assert lab.ended(run).phase == "done"
        assert Path(run.log).read_text() == "up\n"
    else:
        assert "not on the host (any more)" in answer.message


def test_removing_does_not_hold_up_a_launch(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.bundle()
    held: list[bool] = []

    def remove(folder: int, name: str) -> None:
        del folder, name
        with inuse.shared(place.root):  # as a launch does
            held.append((place.root / "bundles" / OLD_ONE).exists())

    monkeypatch.setattr(clean, "_remove", remove)
    (item,) = place.clean().items
    assert item.gone
    assert held == [False]


def test_many_cleans_at_once_remove_everything_once_and_tell_no_trouble(place: Place) -> None:
    for number in range(12):
        place.bundle(f"{number:064d}")
    with ThreadPoolExecutor(4) as pool:
        answers = [answer.result(60) for answer in [pool.submit(place.clean) for _ in range(4)]]
    assert not [item.trouble for answer in answers for item in answer.items if item.trouble]
    assert list((place.root / "bundles").iterdir()) == []


def test_what_cannot_be_removed_is_told_and_never_stands_there_half(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.bundle()

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error", "x/deep/file")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", fail)
        (item,) = place.clean().items
    assert (item.gone, item.trouble) == (False, "Input/output error (file)")
    assert not (place.root / "bundles" / OLD_ONE).exists()
    assert [kind for kind, _ in named(place.clean())] == ["leftover"]
    assert list((place.root / "bundles").iterdir()) == []
