"""Sixty-four hosts side by side: most are well, some refuse, some take the connection and never say a word."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from fabric.config import Config
from fabric.main import Fab
from invoke import Collection

import fabfile
from local.executor import Executor
from local.steps import OnHosts
from tests.ssh.fleet import machines
from tests.ssh.servers import dead_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.session import Session

WELL, REFUSING, SILENT = 40, 4, 20
PATIENCE = 240.0


class Silence:
    """A port that takes connections and says nothing until it is closed."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Let go of whoever waits."""
        self._socket.close()


@pytest.fixture
def silent() -> Iterator[list[Silence]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(Silence())) for _ in range(SILENT)]


def test_no_host_keeps_another_waiting(
    tmp_path: Path, silent: list[Silence], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"well{number:02}" for number in range(WELL)]
    monkeypatch.setenv("FABRIC_INVENTORY", str(tmp_path / "inventory.toml"))
    monkeypatch.setenv("PRUDENT_GATE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "160")
    well: set[str] = set()
    all_well = threading.Event()

    def greet(session: Session) -> None:
        session.console.print(f"home is {session.host.reached.home}")
        well.add(session.name)
        if len(well) == WELL:
            all_well.set()

    def release() -> None:
        assert all_well.wait(PATIENCE)
        for one in silent:
            one.close()

    with machines(tmp_path, names) as hosts:
        ports = {f"a-silent{number:02}": one.port for number, one in enumerate(silent)}  # the first of the inventory
        ports |= {f"refusing{number}": dead_port(number) for number in range(REFUSING)}
        ports |= {name: machine.server.port for name, machine in hosts.items()}
        (tmp_path / "inventory.toml").write_text(
            f'[defaults]\nuser = "{next(iter(hosts.values())).server.user}"\nssh_config = "none"\n'
            f'identity_file = "{tmp_path}/key"\nworkdir = "~/work"\nconnect_timeout = "{PATIENCE:.0f}s"\n'
            + "".join(f'[hosts.{name}]\naddress = "127.0.0.1"\nport = {port}\n' for name, port in ports.items())
        )
        releasing = threading.Thread(target=release)
        releasing.start()
        program = Fab(
            executor_class=Executor, config_class=Config,
            namespace=Collection(OnHosts(greet, name="greet", needs_job=False), fabfile.status),
        )  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            program.run(["fab", "greet", "status", "--json"])
        releasing.join()
        assert ended.value.code == 4
        told = capsys.readouterr()
        for name, machine in hosts.items():
            assert re.search(rf"^ *{name} │ home is {re.escape(str(machine.server.home))}$", told.err, re.MULTILINE)
    found = json.loads(told.out)["hosts"]
    assert set(found) == set(ports)
    assert {name for name, one in found.items() if one["cause"] == "no run on this host"} == set(names)
    for name in set(ports) - set(names):
        assert found[name]["phase"] == "unknown"
        assert re.search(rf"^ *{name} +greet ✗", told.err, re.MULTILINE)
