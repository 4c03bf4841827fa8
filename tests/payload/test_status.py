from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import locks, status, wire
from remote.host import processes
from remote.paths import Output, Run, Workdir
from remote.run import runs
from remote.schema import Exit, Job, LaunchRequest, Samples, State, StatusRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.running import Lab

GARBLED = [b"", b"{", b"\xff\xfe", b"[]", b'{"schema":1}', b'{"schema":99}', b"null", b"[" * 100_000, b"\0" * 4096]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Workdir(PurePosixPath(tmp_path)).run("20260101-000000-abcd")
    Path(made.root).mkdir(parents=True)
    return made


@pytest.fixture
def state(run: Run) -> State:
    """Give the state of a run whose supervisor is this very process."""
    own = processes.read(os.getpid())
    assert own is not None
    now = time.time()
    return State(
        run=run.id, phase="extracting", attempt=2, pid=own.pid, pid_started=float(own.started),
        boot_id=processes.boot_id(), started=now - 60, heartbeat=now, output="/out",
        samples=Samples(total=9, done=4),
    )  # fmt: skip


def phase(run: Run) -> tuple[str, str | None]:
    (found,) = status.answer(StatusRequest(workdir=str(run.root.parent.parent), run=run.id)).runs
    return found.phase, found.cause


def write(run: Run, state: State) -> None:
    Path(run.state).write_text(wire.dumps(state))


def test_a_living_run_is_told_as_it_says(run: Run, state: State) -> None:
    write(run, state)
    assert phase(run) == ("extracting", None)


def test_a_silent_supervisor_is_worth_a_word(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, heartbeat=state.heartbeat - 100))
    assert phase(run)[0] == "extracting"
    assert "has not been heard of" in (phase(run)[1] or "")


def test_a_supervisor_that_is_silent_since_the_clock_was_set_back_is_worth_a_word(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, heartbeat=state.heartbeat + 3600))
    assert phase(run)[0] == "extracting"
    assert "has not been heard of since the host's clock was set back" in (phase(run)[1] or "")


def test_a_pid_that_somebody_else_has_now_is_lost(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, pid_started=state.pid_started - 1))
    assert phase(run)[0] == "lost"
    assert "was killed" in (phase(run)[1] or "")


def test_a_reboot_is_told(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, boot_id="another"))
    assert phase(run) == ("lost", "the host was rebooted while the run went on")


def test_the_exit_decides_over_everything(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, boot_id="another"))
    Path(run.exit).write_text(wire.dumps(Exit(phase="done", code=0, ended=1.0, attempts=3)))
    assert phase(run) == ("done", None)


@pytest.mark.parametrize("data", GARBLED)
@pytest.mark.parametrize("name", ["state.json", "exit.json", "job.json"])
def test_garbled_files_are_never_guessed_at(run: Run, state: State, name: str, data: bytes) -> None:
    write(run, state)
    (Path(run.root) / name).write_bytes(data)
    found, cause = phase(run)
    if name == "job.json":
        assert (found, cause) == ("extracting", None)
    else:
        assert found == "unknown"
        assert name in (cause or "")


def test_a_file_that_is_looked_at_twice_is_told_once(run: Run, state: State) -> None:
    write(run, dataclasses.replace(state, boot_id="another"))
    Path(run.exit).write_text("{")
    assert (phase(run)[1] or "").count("exit.json") == 1


@dataclasses.dataclass
class Launching:
    """A launch that holds the lock on an output folder and has not got further than job.json."""

    lock: Path
    descriptor: int | None

    def let_go(self) -> None:
        """Let go of the lock, as the kernel does for a launch that was killed."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = None


@pytest.fixture
def launching(run: Run, tmp_path: Path) -> Iterator[Launching]:
    output = Output(PurePosixPath(tmp_path / "out"))
    Path(output.root).mkdir()
    job = Job(name="j", engine="command", python="/p", workdir=str(run.root.parent.parent), output=str(output.root))
    Path(run.job).write_text(wire.dumps(LaunchRequest(job=job, bundle="b", fingerprint="f")))
    made = Launching(Path(output.lock), locks.take(output))
    assert made.descriptor is not None
    yield made
    made.let_go()


def aged(run: Run, seconds: float) -> None:
    old = time.time() - seconds
    os.utime(run.root, (old, old))


def test_a_launch_that_holds_its_lock_is_starting_however_long_it_takes(run: Run, launching: Launching) -> None:
    assert launching.descriptor is not None
    aged(run, 10 * runs.STARTING)
    assert phase(run) == ("starting", None)


def test_a_launch_that_is_gone_before_the_run_began_is_told_at_once(run: Run, launching: Launching) -> None:
    launching.let_go()
    assert phase(run) == ("lost", runs.NEVER)


def test_a_launch_is_gone_when_another_run_goes_on_in_its_output(run: Run, launching: Launching, state: State) -> None:
    other = Workdir(run.root.parent.parent).run("20260101-000001-beef")
    Path(other.root).mkdir()
    launching.lock.write_text(json.dumps({"run": other.id, "workdir": str(run.root.parent.parent)}))
    assert phase(run) == ("starting", None)  # whoever signed there has not begun either
    Path(other.state).write_text(wire.dumps(dataclasses.replace(state, run=other.id)))
    assert phase(run) == ("lost", runs.NEVER)
    Path(other.exit).write_text(wire.dumps(Exit(phase="done", code=0, ended=1.0, attempts=1)))
    assert phase(run) == ("starting", None)  # that was the run before


def test_where_the_lock_cannot_tell_the_age_does(run: Run, launching: Launching) -> None:
    launching.lock.unlink()
    assert phase(run) == ("starting", None)
    aged(run, runs.STARTING + 1)
    assert phase(run) == ("lost", runs.NEVER)


@pytest.mark.parametrize("age", [runs.EMPTY + 1, -3600.0], ids=["old", "of before the clock was set back"])
def test_a_folder_without_anything_is_not_starting_for_long(run: Run, age: float) -> None:
    assert phase(run) == ("starting", None)
    aged(run, age)
    assert phase(run) == ("lost", runs.NEVER)


def test_folders_that_are_no_runs_are_passed_over(run: Run, tmp_path: Path) -> None:
    for name in ("x", "20260101", "20260101-000000-abcd.bak", ".tmp"):
        (tmp_path / "runs" / name).mkdir()
    answer = status.answer(StatusRequest(workdir=str(tmp_path)))
    assert [found.run for found in answer.runs] == [run.id]
    assert status.answer(StatusRequest(workdir=str(tmp_path / "nowhere"))).runs == ()


def test_runs_are_told_newest_first_over_the_wire(lab: Lab) -> None:
    first = lab.start("echo done 1/1")
    lab.ended(first)
    second = lab.start("echo 'Error 802: system not yet initialized'; exit 4")
    lab.ended(second)
    newest, oldest = sorted(lab.status(), key=lambda found: found.phase, reverse=True)
    assert {found.run for found in lab.status()} == {first.id, second.id}
    assert (oldest.phase, oldest.samples, oldest.exit) == ("done", Samples(total=1, done=1), 0)
    assert (newest.phase, newest.exit, newest.cause, newest.job) == ("failed", 4, "fabric-manager", "job")
    assert newest.log_bytes == len(Path(second.log).read_bytes())
    assert lab.status("20200101-000000-0000") == ()
