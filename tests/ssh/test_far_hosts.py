"""Hosts with addresses of their own, 200 ms away on lines that lose packets: all that works nearby works there."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import hostpython, laptop
from tests.running import until
from tests.ssh import sshd
from tests.ssh.internet import Internet, needs_internet
from tests.ssh.servers import USER, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
FAB = str(Path(sys.executable).parent / "fab")
LAPTOP = "192.0.2.10"
HOSTS = {"near": "192.0.2.11", "far": "192.0.2.12", "away": "192.0.2.13"}
LIMIT = 240.0
JOB = """
[jobs.script]
engine = "command"
device = "cpu"
command = ["sh", "-c", "seq 1 20000; until test ! -e $HOME/wait; do sleep 0.1; done; echo finished here"]
output = "~/out"
retry = { transient = 0 }
"""

pytestmark = [
    needs_internet,
    pytest.mark.skipif(sshd.program() is None, reason="no sshd is installed"),
    pytest.mark.xdist_group("internet"),
]


class World:
    """A laptop and its hosts."""

    def __init__(self, folder: Path, net: Internet) -> None:
        self.folder = folder
        self.net = net
        entries = (
            f'[hosts.{name}]\naddress = "{address}"\nworkdir = "~/work"\nport = 2022\n'
            for name, address in HOSTS.items()
        )
        (folder / "inventory.toml").write_text(
            f'[defaults]\nuser = "{USER}"\nssh_config = "none"\npython = "{hostpython.python()}"\n'
            f'identity_file = "{folder}/key"\n{"".join(entries)}{JOB}',
            encoding="utf-8",
        )
        self.environment = laptop.environment(folder, COLUMNS="160")

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.net.inside(LAPTOP), FAB, *words], cwd=ROOT, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def fab(self, *words: str) -> tuple[int, str, str]:
        return ended(self.start(*words))

    def home(self, host: str) -> Path:
        return self.folder / host / "home"


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LIMIT)
    assert "Traceback" not in err
    return process.returncode, out, err


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("internet")
    make_key(folder / "key")
    with Internet([LAPTOP, *HOSTS.values()], delay=0.1, loss=0.01, seed=7) as net, contextlib.ExitStack() as stack:
        for name, address in HOSTS.items():
            stack.enter_context(serving(folder / name, net, address))
        yield World(folder, net)


@contextlib.contextmanager
def serving(folder: Path, net: Internet, address: str) -> Iterator[None]:
    """Run an sshd at a member."""
    (folder / "home").mkdir(parents=True)
    make_key(folder / "host_key")
    (folder / "authorized_keys").write_text((folder.parent / "key.pub").read_text())
    text = sshd.CONFIG.format(port=2022, folder=folder, home=folder / "home", more="")
    (folder / "config").write_text(text.replace("ListenAddress 127.0.0.1", f"ListenAddress {address}"))
    Path("/run/sshd").mkdir(exist_ok=True)
    words = [*net.inside(address), str(sshd.program()), "-D", "-e", "-f", str(folder / "config")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)
    try:
        until(lambda: "listening" in (folder / "log").read_text(), "sshd listens")
        yield
    finally:
        sshd.stop(process)


def test_a_job_runs_and_its_log_comes_whole(world: World) -> None:
    code, _, err = world.fab("preflight", "extract")
    assert code == 0, err
    assert err.count("extract ✓") == len(HOSTS)
    code, out, _ = world.fab("-H", "far", "logs")
    assert out.splitlines() == [*map(str, range(1, 20001)), "finished here"]
    code, out, _ = world.fab("monitor", "--once", "--json")
    assert code == 0
    assert {name: host["phase"] for name, host in json.loads(out)["hosts"].items()} == dict.fromkeys(HOSTS, "done")


def test_a_host_that_is_in_the_dark_for_a_while_is_followed_to_its_end(world: World) -> None:
    away = world.home("away")
    before = len(list(away.glob("work/runs/*/log")))
    wait = away / "wait"
    wait.touch()
    process = world.start("extract")
    try:
        until(lambda: len(list(away.glob("work/runs/*/log"))) > before, "the run", patience=LIMIT)
        world.net.dark.add(HOSTS["away"])
        carried = world.net.carried
        wait.unlink()  # the run ends while nobody can see it
        until(lambda: len(list(away.glob("work/runs/*/exit.json"))) > before, "its end", patience=LIMIT)
        until(lambda: world.net.carried > carried, "the others go on", patience=LIMIT)
    finally:
        wait.unlink(missing_ok=True)
        world.net.dark.clear()
    code, _, err = ended(process)
    assert code == 0, err
    assert err.count("finished here") == len(HOSTS)
