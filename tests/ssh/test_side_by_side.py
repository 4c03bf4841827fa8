"""Eight and sixty-four hosts side by side, some dead, mute, rude, slow or stopped: nobody holds the others back."""

from __future__ import annotations

import contextlib
import json
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil
import pytest

from tests import hostpython, laptop
from tests.running import until
from tests.ssh import nodes, sshd

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).parent / "fab")
LIMIT = 600.0  # sixty-four hosts are one machine here, and it may be a slow one
JOB = """
[jobs.script]
engine = "command"
device = "cpu"
command = [
    "sh", "-c", "echo $HOME >> ran; until test ! -e $HOME/wait -o -e $HOME/go; do sleep 0.1; done; echo finished here",
]
output = "~/out"
retry = { transient = 0 }
"""

pytestmark = [
    pytest.mark.skipif(sshd.program() is None, reason="many hosts are many sshd, and none is installed"),
    pytest.mark.xdist_group("many-hosts"),
]


class Desk:
    """A laptop before an inventory of many hosts."""

    def __init__(self, folder: Path, entries: Sequence[str]) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "inventory.toml").write_text(
            f'[defaults]\nssh_config = "none"\npython = "{hostpython.python()}"\nworkdir = "~/work"\n'
            f'connect_timeout = "20s"\n{"".join(entries)}{JOB}',
            encoding="utf-8",
        )
        self.environment = laptop.environment(folder, COLUMNS="160")

    def fab(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [FAB, *words], cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert "Traceback" not in done.stderr
        return done

    def start(self, *words: str) -> Watched:
        return Watched(
            subprocess.Popen(
                [FAB, *words],
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def phases(self) -> Counter[str]:
        told = json.loads(self.fab("status", "--json").stdout)["hosts"]
        return Counter(host["phase"] for host in told.values())


class Watched:
    """A fab at work, whose lines are read as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.lines.append(line)

    def told(self, host: str, words: str) -> bool:
        return any(line.startswith(f"{host} ") and words in line for line in self.lines)

    def end(self) -> int:
        code = self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        return code


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[nodes.Member]]:
    with nodes.running(tmp_path_factory.mktemp("eight") / "fleet", 8) as members:
        yield members


def homes(members: Sequence[nodes.Member]) -> list[Path]:
    return [member.home for member in members if member.home is not None]


def ran(member: nodes.Member, workdir: str = "work") -> list[str]:
    """Give a line for every time that the job was started on a host."""
    (home,) = homes([member])
    return [line for file in home.glob(f"{workdir}/runs/*/ran") for line in file.read_text().splitlines()]


def slow_python(folder: Path) -> Path:
    """Make a Python that takes its time to start, as one on a network file system does."""
    program = folder / "slow-python"
    program.write_text(f'#!/bin/sh\nsleep 1\nexec "{hostpython.python()}" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_sixty_four_hosts_each_run_once_and_four_strange_ones_cost_only_themselves(tmp_path: Path) -> None:
    with nodes.running(tmp_path / "fleet", 64) as members:
        key = members[0].identity
        with nodes.mute(key) as mute, nodes.rude(key) as rude:
            strange = [nodes.dead(key), mute, rude]
            slow = members[7].entry(python=str(slow_python(tmp_path)))
            entries = [member.entry() for member in [*members, *strange] if member is not members[7]]
            desk = Desk(tmp_path / "desk", [*entries, slow])

            first = desk.fab("status", "--json")
            told = json.loads(first.stdout)["hosts"]
            assert first.returncode == 4
            assert len(told) == 67
            assert {name for name, host in told.items() if host["cause"] != "no run on this host"} == {
                "dead",
                "mute",
                "rude",
            }

            extract = desk.fab("extract")
            assert extract.returncode == 4, extract.stderr
            assert [
                line for line in extract.stderr.splitlines() if "extract ✗" in line and "Unreachable" not in line
            ] == []
            assert extract.stderr.count("extract ✓") == 64
            assert {str(home) for home in homes(members)} == {line for member in members for line in ran(member)}
            assert [len(ran(member)) for member in members] == [1] * 64
            assert desk.phases() == {"done": 64, "unknown": 3}


@contextlib.contextmanager
def held(member: nodes.Member) -> Iterator[None]:
    """Keep the job of a host from ending until the block is left."""
    (home,) = homes([member])
    (home / "go").unlink(missing_ok=True)
    (home / "wait").touch()
    try:
        yield
    finally:
        (home / "go").touch()
        (home / "wait").unlink()


def test_the_slowest_host_never_holds_the_others_output_back(tmp_path: Path, eight: list[nodes.Member]) -> None:
    desk = Desk(tmp_path / "desk", [member.entry(workdir="~/slowest") for member in eight])
    slowest, *others = eight
    with held(slowest):
        watched = desk.start("extract")
        until(lambda: all(watched.told(other.name, "finished here") for other in others), "the others", patience=LIMIT)
        assert not watched.told(slowest.name, "finished here")
    assert watched.end() == 0
    assert watched.told(slowest.name, "finished here")


def test_a_host_that_stops_answering_is_given_up_alone(tmp_path: Path, eight: list[nodes.Member]) -> None:
    desk = Desk(tmp_path / "desk", [member.entry(workdir="~/frozen") for member in eight])
    frozen = eight[5]
    with held(frozen):
        watched = desk.start("extract", "--patience", "5")
        until(lambda: watched.told(frozen.name, "started the run"), "the run started", patience=LIMIT)
        with stopped(frozen):
            assert watched.end() == 75
        assert len([line for line in watched.lines if "extract ✓" in line]) == 7
        assert "attached to the run" in desk.fab("-H", frozen.name, "extract", "--detach").stderr
    assert len(ran(frozen, "frozen")) == 1


@contextlib.contextmanager
def stopped(member: nodes.Member) -> Iterator[None]:
    """Let a host's sshd and its sessions say nothing; the connections stand, the job goes on."""
    server = psutil.Process(member.pid)
    family = [server, *server.children(recursive=True)]
    family = [process for process in family if process.name().startswith("sshd")]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(family):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
