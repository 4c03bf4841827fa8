"""The folder of an attempt's sockets: short, unforeseeable, gone with the attempt, and nothing else with it."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from remote.host import sockets
from remote.paths import Run
from tests.running import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.running import Lab

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
    room = sockets.LONGEST - len(f"{place}/") - len("/pg-12345678")
    longest, longer = place / ("a" * room), place / ("b" * (room + 1))
    longest.mkdir()
    longer.mkdir()
    folder = made(longest)
    bound(folder)
    sockets.remove(folder)
    assert sockets.make({"TMPDIR": str(longer)}) is None
    assert [*longest.iterdir(), *longer.iterdir()] == []


def test_nothing_but_sockets_is_removed_whatever_name_is_given(place: Path) -> None:
    others = place / "others"
    others.mkdir()
    kept = bound(others)
    link = place / "pg-abcdefgh"
    link.symlink_to(others)
    full = Path(made(place))
    (full / "file").write_text("not ours")
    (full / "link").symlink_to(kept)
    gone = bound(full)
    for name in (others, link, full, place / "pg-absent00", "", "pg-", None):
        sockets.remove(None if name is None else str(name))
    assert kept.is_socket()
    assert link.is_symlink()
    assert sorted(path.name for path in full.iterdir()) == ["file", "link"]
    assert not gone.exists()


@pytest.mark.parametrize("data", [b"", b"/tmp", b"\xff\n", b"../pg-abcdefgh", b"\0"])
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
    assert list(short.glob("pg-*")) == []


@pytest.mark.parametrize("how", ["stop", "launch"])
def test_what_a_killed_supervisor_leaves_goes_with_whoever_looks_after_the_run(lab: Lab, short: Path, how: str) -> None:
    run = lab.start(script(lab, LIVES))
    lab.logged(run, "bound")
    assert len(list(short.glob("pg-*/*"))) == 1
    lab.kill_supervisor(run)
    until(lambda: not [name for name in lab.status(run.id) if name.phase != "lost"], "the end of the run")
    if how == "stop":
        lab.stop(run.id)
    else:
        lab.ended(lab.start("true"))
    assert list(short.glob("pg-*")) == []


def test_a_job_that_names_its_own_folder_keeps_what_is_there(lab: Lab, short: Path) -> None:
    own = short / "own"
    own.mkdir()
    lab.ended(lab.start(script(lab, BIND), env={sockets.VARIABLE: str(own)}))
    assert len(list(own.iterdir())) == 1
    assert os.listdir(short) == ["own"]  # noqa: PTH208 - names are what is compared
