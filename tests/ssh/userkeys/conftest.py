"""A server that trusts an authority, an agent of our own, and links under lines of ssh_config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.links.ssh import SshLink, open_link
from tests.ssh import keys, sshd
from tests.ssh.userkeys.making import CERTIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.ssh.servers import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts an authority, and lets six keys be tried."""
    folder = tmp_path_factory.mktemp("keys")
    keys.key(folder / "user_ca", "-t", "ed25519")
    with sshd.running(folder, more=CERTIFIED.format(folder=folder) + "MaxAuthTries 6\n") as running:
        yield running


@pytest.fixture
def sock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with keys.agent(tmp_path / "agent") as running:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(running))
        yield running


@pytest.fixture(autouse=True)
def _no_agent_but_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def link(server: Server, tmp_path: Path) -> Iterator[Callable[..., SshLink]]:
    """Make links under lines of ssh_config."""
    made: list[SshLink] = []

    def make(config: str = "", **changes: object) -> SshLink:
        file = tmp_path / "config"
        file.write_text(f"Host *\n UserKnownHostsFile none\n{config}")
        settings = server.settings(**{"identity_file": None, **changes})
        made.append(open_link(settings, ssh_config=str(file), pin_file=tmp_path / "pins"))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def other_server(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    running = []

    def start(more: str) -> Server:
        (tmp_path / "sshd").mkdir()
        running.append(sshd.running(tmp_path / "sshd", more=more))
        return running[-1].__enter__()

    yield start
    for context in running:
        context.__exit__(None, None, None)
