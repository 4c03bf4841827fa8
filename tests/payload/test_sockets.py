"""The folder of an attempt's sockets: short, unforeseeable, gone with the attempt, and nothing else with it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from remote.host import sockets
from remote.paths import Run
from remote.schema import CleanAnswer, CleanRequest
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.running import Lab

ROOT = Path(__file__).parents[2]
# What vLLM does: a socket of a name of its own, where the variable says.
BIND = (
    "import os, socket, uuid; s = socket.socket(socket.AF_UNIX);"
    f"s.bind(os.environ['{sockets.VARIABLE}'] + '/' + str(uuid.uuid4())); print('bound', flush=True);"
)
LIVES = BIND + "import time; time.sleep(60)"


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder whose own name is short, as a host's is."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        yield Path(folder)


def bound(folder: str | Path) -> Path:
    path = Path(folder) / str(uuid4())
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


def made(place: Path) -> str:
    environment = {"TMPDIR": str(place)}
    folder = sockets.make(environment)
    assert folder == environment[sockets.VARIABLE]
    return str(folder)


def test_a_folder_is_private_and_takes_what_vllm_puts_there(place: Path) -> None:
    folder = made(place)
    assert Path(folder).parent == place
    assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
    bound(folder)
    sockets.remove(folder)
    assert list(place.iterdir()) == []


def test_a_job_that_says_where_its_sockets_go_keeps_its_place(place: Path) -> None:
    environment = {"TMPDIR": str(place), sockets.VARIABLE: "/elsewhere"}
    assert sockets.make(environment) is None
    assert environment[sockets.VARIABLE] == "/elsewhere"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("below", ["x" * 200, "absent"])
def test_where_none_can_be_made_the_variable_is_not_set(place: Path, below: str) -> None:
    if below != "absent":
        (place / below).mkdir()
    environment = {"TMPDIR": str(place / below)}
    assert sockets.make(environment) is None
    assert sockets.VARIABLE not in environment


def test_the_longest_folder_there_is_can_hold_a_socket(place: Path) -> None:
    room = sockets.LONGEST - len(f"{place}/") - len("/pgs-12345678")
    longest, longer = place / ("a" * room), place / ("b" * (room + 1))
    longest.mkdir()
    longer.mkdir()
    folder = made(longest)
    bound(folder)
    sockets.remove(folder)
    assert sockets.make({"TMPDIR": str(longer)}) is None
    assert [*longest.iterdir(), *longer.iterdir()] == []


def test_the_folder_of_a_run_of_before_there_were_locks_goes_with_that_run(tmp_path: Path, place: Path) -> None:
    run = Run(PurePosixPath(tmp_path))
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=place))
    bound(folder)
    sockets.note(run, str(folder))
    sockets.sweep(run)
    assert list(place.iterdir()) == []


def test_nothing_but_sockets_is_removed_whatever_name_is_given(place: Path) -> None:
    others = place / "others"
    others.mkdir()
    kept = bound(others)
    link = place / "pgs-abcdefgh"
    link.symlink_to(others)
    full = Path(made(place))
    (full / "file").write_text("not ours")
    (full / "link").symlink_to(kept)
    gone = bound(full)
    for name in (others, link, full, place / "pgs-absent00", "", "pgs-", None):
        sockets.remove(None if name is None else str(name))
    assert kept.is_socket()
    assert link.is_symlink()
    assert sorted(path.name for path in full.iterdir()) == ["file", "link"]
    assert not gone.exists()


HOLDS = (
    "import os, sys; from remote.host import sockets;"
    "print(sockets.make({'TMPDIR': sys.argv[1]}), flush=True); sys.stdin.read()"
)


@contextlib.contextmanager
def maker(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Give another process that has made a folder, and lives."""
    words = [sys.executable, "-c", HOLDS, str(place)]
    with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_what_a_killed_maker_has_left_is_swept_and_nothing_that_somebody_holds(place: Path) -> None:
    own = made(place)
    with maker(place) as (_, held), maker(place) as (killed, left):
        bound(held)
        bound(left)
        killed.kill()
        killed.wait()
        empty = Path(tempfile.mkdtemp(prefix="pgs-", dir=place))
        sockets.sweep_left({"TMPDIR": str(place)})
        assert sorted(place.iterdir()) == sorted([Path(own), held])
        assert not empty.exists()
        assert not left.exists()
        assert len(list(held.iterdir())) == 1
    sockets.remove(own)


def test_where_somebody_still_answers_nothing_is_swept(place: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pgs-", dir=place))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        listening.listen(0)
        for _ in range(3):  # also once nobody takes who comes any more
            sockets.sweep_left({"TMPDIR": str(place)})
        assert (folder / "socket").is_socket()
    sockets.sweep_left({"TMPDIR": str(place)})
    assert list(place.iterdir()) == []


def test_only_folders_of_our_kind_are_swept(place: Path) -> None:
    others = place / "others"
    others.mkdir()
    kept = bound(others)
    (place / "pgs-abcdefgh").symlink_to(others)
    (place / "pgs-12345678").write_text("a file")
    (place / "pg-abcdefgh").mkdir()  # of a run that began before folders were locked
    (place / "pgs-").mkdir()
    (place / "pgs-ABCDEFGH").mkdir()
    full = Path(tempfile.mkdtemp(prefix="pgs-", dir=place))
    (full / "file").write_text("not ours")
    before = sorted(place.rglob("*"))
    sockets.sweep_left({"TMPDIR": str(place)})
    sockets.sweep_left({"TMPDIR": str(place / "absent")})
    assert sorted(place.rglob("*")) == before
    assert kept.is_socket()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_is_not_swept(place: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="pgs-", dir=place))
    os.chown(folder, 65534, 65534)
    sockets.sweep_left({"TMPDIR": str(place)})
    assert folder.is_dir()


def test_a_folder_that_is_swept_before_its_maker_holds_it_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    make = tempfile.mkdtemp

    def swept_at_once(**words: str) -> str:
        names.append(make(**words))
        if len(names) == 1:
            sockets.sweep_left({"TMPDIR": str(place)})
        return names[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept_at_once)
    folder = made(place)
    assert [str(path) for path in place.iterdir()] == [folder] == names[1:]
    sockets.remove(folder)


@pytest.mark.parametrize("data", [b"", b"/tmp", b"\xff\n", b"../pgs-abcdefgh", b"\0"])
def test_a_note_that_makes_no_sense_removes_nothing(tmp_path: Path, data: bytes) -> None:
    run = Run(PurePosixPath(tmp_path))
    Path(run.sockets).write_bytes(data)
    sockets.sweep(run)
    assert tmp_path.is_dir()


@pytest.fixture
def short(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the host's folder for temporary files be one with a short name."""
    monkeypatch.setenv("TMPDIR", str(place))
    return place


def script(lab: Lab, code: str) -> str:
    return f'{lab.python} -c "{code}"'


def test_each_attempt_has_a_folder_that_goes_with_it(lab: Lab, short: Path) -> None:
    run = lab.start(script(lab, BIND + "raise SystemExit('CUDA error: an illegal memory access was encountered')"))
    ended = lab.ended(run)
    assert ended.attempts == 2
    assert Path(run.log).read_text().count("bound") == 2
    assert list(short.glob("pgs-*")) == []


@pytest.mark.parametrize("how", ["stop", "launch"])
def test_what_a_killed_supervisor_leaves_goes_with_whoever_looks_after_the_run(lab: Lab, short: Path, how: str) -> None:
    run = lab.start(script(lab, LIVES))
    lab.logged(run, "bound")
    assert len(list(short.glob("pgs-*/*"))) == 1
    lab.kill_supervisor(run)
    until(lambda: not [name for name in lab.status(run.id) if name.phase != "lost"], "the end of the run")
    if how == "stop":
        lab.stop(run.id)
    else:
        lab.ended(lab.start("true"))
    assert list(short.glob("pgs-*")) == []


@pytest.mark.parametrize("how", ["launch", "clean"])
def test_a_folder_that_nobody_noted_goes_with_the_next_launch_or_clean(lab: Lab, short: Path, how: str) -> None:
    left = [Path(tempfile.mkdtemp(prefix="pgs-", dir=short)), Path(tempfile.mkdtemp(prefix="pgs-", dir=short))]
    bound(left[0])
    run = lab.start(script(lab, LIVES))
    lab.logged(run, "bound")
    assert len(list(short.glob("pgs-*/*"))) == 1, "the launch has swept, and the run has a folder of its own"
    assert not any(folder.exists() for folder in left)
    again = Path(tempfile.mkdtemp(prefix="pgs-", dir=short))
    if how == "clean":
        request = CleanRequest(workdir=lab.workdir, keep=1, remove=True)
        lab.host.call("clean", request, CleanAnswer, bundle=lab.bundle, deadline=30.0)
    else:
        assert lab.launch(lab.job("true")).outcome == "attached"
        assert lab.launch(lab.job("true", output=str(short / "out"))).outcome == "started"
    assert not again.exists()
    assert len(list(short.glob("pgs-*/*"))) == 1, "the run goes on"
    lab.stop(run.id)
    lab.clean_up()
    assert list(short.glob("pgs-*")) == []


def test_a_job_that_names_its_own_folder_keeps_what_is_there(lab: Lab, short: Path) -> None:
    own = short / "own"
    own.mkdir()
    lab.ended(lab.start(script(lab, BIND), env={sockets.VARIABLE: str(own)}))
    assert len(list(own.iterdir())) == 1
    assert os.listdir(short) == ["own"]  # noqa: PTH208 - names are what is compared
