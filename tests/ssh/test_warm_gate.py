"""A warm gate over a real SSH server: one connection, one command, whatever a task does around it."""

from __future__ import annotations

import io
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from local import gate
from local.links.settings import SshSettings
from local.links.ssh import SshLink
from local.screen import Screen
from local.session import Session
from local.targets import Target
from local.tasks.gate import preflight
from remote.__main__ import VERBS as OF_THE_PAYLOAD
from remote.schema import GateSpec, Job
from tests import hostpython

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

VERBS = {"reach", "install", *OF_THE_PAYLOAD}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give packages for the job, a series of no patches, and folders of our own on the laptop."""
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gate, "load_series", tuple)
    folder = tmp_path / "site"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg-1.0.dist-info").mkdir()
    (folder / "pkg-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n")
    return folder


@contextmanager
def session(server: Server, site: Path, said: list[str], **job: Any) -> Iterator[Session]:
    """Give what a task is handed, on a link that notes every command."""

    class Counting(SshLink):
        def run(self, command: Any, **rest: Any) -> Any:
            said.append(next(word for word in command.words if word in VERBS))
            return super().run(command, **rest)

        def stream(self, command: Any, **rest: Any) -> Any:
            said.append(command.words[-1])
            return super().stream(command, **rest)

    def connect(*_: Any, **__: Any) -> SshLink:
        said.append("connect")
        plain = server.link()
        plain.__class__ = Counting
        return plain

    wanted = Job(
        name="j",
        engine="command",
        command=("true",),
        python=hostpython.python(),
        workdir="~/warm work",
        output="~/out",
        device="cpu",
        env={"PYTHONPATH": str(site)},
        gate=GateSpec(modules=("pkg",)),
    )
    target = Target(
        name="gpu01",
        ssh=SshSettings(name="gpu01", address="127.0.0.1"),
        job=replace(wanted, **job),
        gpus=None,
        usd_per_hour=None,
    )
    screen = Screen()
    _, lines = screen.for_host("gpu01", 0, 0, ())
    made = Session(target, Console(file=io.StringIO()), lines, alone=True, connect=connect)
    try:
        yield made
    finally:
        made.let_go()


def test_a_warm_gate_is_one_command_after_connecting(sshd_server: Server, site: Path) -> None:
    said: list[str] = []
    try:
        with session(sshd_server, site, said) as cold:
            preflight(cold)
            assert cold.word == "pass"
        assert said[:3] == ["connect", "reach", "install"]
        assert {"facts", "verdict", "levels"} < set(said)

        said.clear()
        with session(sshd_server, site, said) as warm:
            outcome = preflight(warm)
            assert said == ["connect", "reach"]
            assert (warm.word, outcome.passed) == ("pass (remembered)", True)
            preflight(warm)
            assert said == ["connect", "reach", "reach"], "a second gate on the same connection asks again"
            preflight(warm, until="patch")
            assert said[3:] == ["reach"]

        said.clear()
        with session(sshd_server, site, said) as fresh:
            assert preflight(fresh, fresh=True).cached is False
        assert "levels" in said

        (site / "pkg" / "__init__.py").write_text("edited = True\n")
        said.clear()
        with session(sshd_server, site, said) as edited:
            outcome = preflight(edited)
        assert (outcome.cached, outcome.passed) == (False, True)
        assert said[:2] == ["connect", "reach"]
        assert "facts" not in said, "the first breath has brought them"
        assert outcome.verdict.changed == ("the sources of pkg (edited in place) changed",)

        said.clear()
        with session(sshd_server, site, said, layers=(1,)) as other:
            assert preflight(other).cached is False
        assert said[1:3] == ["reach", "facts"], "another job has nothing to ask ahead"
    finally:
        shutil.rmtree(sshd_server.home / "warm work", ignore_errors=True)
