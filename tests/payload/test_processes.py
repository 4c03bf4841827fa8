from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote.host import processes
from remote.paths import RUN_ENV, Run
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator

STAT = "{pid} ({name}) S 1 42 43 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 777 1000 200 18446744073709551615\n"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


@pytest.mark.parametrize("name", ["python3", "a b", "a) S 9 9 9", "((", "))", "", "\t\n", "é\udce9"])
def test_a_stat_line_is_read_whatever_the_name(name: str) -> None:
    process = processes.parse_stat(STAT.format(pid=7, name=name))
    assert process == processes.Process(7, 777, 1, 42, 43, "S", name)


@pytest.mark.parametrize("text", ["", "7 (x", "7 x) S 1", "7 (x) S 1 2 3", "x (y) " + "1 " * 30])
def test_a_torn_stat_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        processes.parse_stat(text)


@pytest.mark.parametrize("environment", [b"A=1\0PRUDENT_GATE_RUN=/w/runs/1\0B=2\0", b"PRUDENT_GATE_RUN=/w/runs/1"])
def test_the_mark_is_found(environment: bytes) -> None:
    assert processes.carries(environment, "/w/runs/1")


@pytest.mark.parametrize(
    "environment",
    [
        b"PRUDENT_GATE_RUN=/w/runs/10\0",
        b"XPRUDENT_GATE_RUN=/w/runs/1\0",
        b"A=PRUDENT_GATE_RUN=/w/runs/1\0",
        b"\0" * 100,
        b"",
    ],
)
def test_the_mark_must_be_exactly_the_runs(environment: bytes) -> None:
    assert not processes.carries(environment, "/w/runs/1")


def test_descendants_survive_circles_and_exclude_the_roots() -> None:
    def process(pid: int, parent: int) -> processes.Process:
        return processes.Process(pid, 1, parent, 1, 1, "S", "x")

    table = [process(1, 0), process(2, 1), process(3, 2), process(4, 9), process(5, 6), process(6, 5)]
    assert processes.descendants(table, {1}) == {2, 3}
    assert processes.descendants(table, {5}) == {6}
    assert processes.descendants(table, {77}) == set()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "log").touch()
    return Run(PurePosixPath(tmp_path))


@pytest.fixture
def started(run: Run) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Give processes by what ties them to the run, foreign ones among them."""
    environment = {**os.environ, RUN_ENV: str(run.root)}
    with Path(run.log).open("ab") as log, Path(run.log).open("rb") as reading:
        made = {
            "marked": subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True),
            "deaf": subprocess.Popen([sys.executable, "-c", DEAF], env=environment, stdout=log),
            "logging": subprocess.Popen(["env", "-i", "/bin/sleep", "60"], stdout=log),
            "foreign": subprocess.Popen(["sleep", "60"], env={**os.environ, RUN_ENV: f"{run.root}0"}),
            "reader": subprocess.Popen(["sleep", "60"], stdin=reading, stdout=subprocess.DEVNULL),
        }
    until(lambda: b"deaf" in Path(run.log).read_bytes())
    yield made
    for process in made.values():
        process.kill()
        process.wait()


def test_a_runs_processes_are_ended_and_nobody_elses(run: Run, started: dict[str, subprocess.Popen[bytes]]) -> None:
    own = {started[name].pid for name in ("marked", "deaf", "logging")}
    assert {process.pid for process in processes.of_run(run)} == own
    assert processes.end(lambda: processes.of_run(run), grace=0.3) == ()
    assert processes.of_run(run) == []
    assert started["marked"].wait(5) == -signal.SIGTERM
    assert started["deaf"].wait(5) == -signal.SIGKILL
    assert started["foreign"].poll() is None
    assert started["reader"].poll() is None


def test_we_never_end_ourselves_or_those_we_descend_from(run: Run) -> None:
    code = (
        "import os, subprocess, sys; from pathlib import PurePosixPath; from remote import paths;"
        "from remote.host import processes;"
        "run = paths.Run(PurePosixPath(sys.argv[1]));"
        "child = subprocess.Popen(['sleep', '60']);"
        "found = [process.pid for process in processes.of_run(run)];"
        "child.kill(); child.wait(); print(found == [child.pid])"
    )
    environment = {**os.environ, RUN_ENV: str(run.root), "PYTHONPATH": str(Path(__file__).parents[2])}
    said = subprocess.run(
        [sys.executable, "-c", code, str(run.root)], env=environment, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "True"


def test_a_pid_that_was_given_out_again_is_somebody_else() -> None:
    own = processes.read(os.getpid())
    assert own is not None
    assert processes.alive(own.pid, own.started)
    assert not processes.alive(own.pid, own.started + 1)
    processes.send(processes.Process(own.pid, own.started + 1, 0, 0, 0, "S", ""), signal.SIGKILL)


def test_what_cannot_be_ended_is_named() -> None:
    own = processes.read(os.getpid())
    assert own is not None
    stranger = processes.Process(own.pid, own.started + 1, 0, 0, 0, "S", "")  # never reached by a signal
    assert processes.end(lambda: [stranger], grace=0.05, killing=0.1) == (own.pid,)
