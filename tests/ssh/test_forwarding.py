"""The agent lent where the inventory asks for it, and only there; how long a silent host is believed."""

from __future__ import annotations

import math
import shutil
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from local import inventory, targets
from local.errors import LinkLost
from local.links.base import Command
from local.links.hops import BEAT, SILENCE
from local.links.settings import SshSettings
from local.links.ssh import open_link
from local.links.sshconfig import route
from tests.ssh import keys, sshd
from tests.ssh.proxy import Proxy
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]
LIST = Command(("ssh-add", "-l"))


@pytest.fixture
def sock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with keys.agent(tmp_path / "agent") as running:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(running))
        yield running


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], str]:
    def write(lines: str) -> str:
        file = tmp_path / "config"
        file.write_text(f"Host *\n UserKnownHostsFile none\n{lines}")
        return str(file)

    return write


@pytest.mark.parametrize("asked", [True, False])
def test_the_agent_is_there_on_the_host_only_when_asked_for(
    sshd_server: Server, sock: Path, config: Callable[[str], str], *, asked: bool
) -> None:
    keys.add(sock, sshd_server.identity)
    link = open_link(
        sshd_server.settings(forward_agent=asked), ssh_config=config(" ForwardAgent yes\n"), pin_file=sshd_server.pins
    )
    answer = link.run(LIST)
    with link.stream(LIST) as stream:
        streamed = stream.read(10.0)
    link.close()
    known = keys.fingerprint(sshd_server.identity).encode()
    assert (known in answer.stdout, known in streamed) == (asked, asked)
    told = [note for note in link.notices if "ForwardAgent" in note or "forwarded" in note]
    assert len(told) == 1
    assert ("as the inventory asks" if asked else "forward_agent = true") in told[0]


def test_a_forwarded_agent_signs_for_the_host(sshd_server: Server, sock: Path, tmp_path: Path) -> None:
    """What it is for: from the host on to another one, with a key that the host never has."""
    keys.add(sock, sshd_server.identity)
    link = sshd_server.link(forward_agent=True)
    on = ("ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={tmp_path}/known",
          "-o", "IdentityFile=none", "-p", str(sshd_server.port), "127.0.0.1", "echo", "there")  # fmt: skip
    for _ in range(3):
        assert link.run(Command(on)).stdout == b"there\n"
    link.close()


@pytest.mark.parametrize("there", ["no variable", "nobody listens", "hangs up"])
def test_no_agent_to_forward_is_said_and_harms_nothing(
    sshd_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with socket.socket(socket.AF_UNIX) as listener:
        thread = threading.Thread(target=_hang_up, args=(listener,), daemon=True)
        if there != "no variable":
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "sock"))
            listener.bind(str(tmp_path / "sock"))
        if there == "hangs up":
            listener.listen()
            thread.start()
        link = sshd_server.link(forward_agent=True)
        assert link.run(LIST).code != 0  # it may die of writing to nobody
        assert link.run(Command(("true",))).code == 0
        link.close()
        if there == "hangs up":
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
    if there == "no variable":
        assert any("no ssh-agent is here" in note for note in link.notices)


def _hang_up(listener: socket.socket) -> None:
    try:
        while True:
            listener.accept()[0].close()
    except OSError:
        return


def test_a_server_that_takes_no_agent_goes_on_without(tmp_path: Path, sock: Path) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    with sshd.running(folder, more="AllowAgentForwarding no") as server:
        keys.add(sock, server.identity)
        link = server.link(forward_agent=True)
        assert link.run(LIST).code != 0
        assert link.run(Command(("true",))).code == 0
        link.close()


def test_jump_hosts_are_lent_nothing(config: Callable[[str], str]) -> None:
    settings = SshSettings(name="a", address="192.0.2.1", jump="192.0.2.2,192.0.2.3", forward_agent=True)
    hops = route(settings, ssh_config=config(" IdentityAgent /run/agent\n"))
    assert [hop.lent for hop in hops] == [None, None, "/run/agent"]


@pytest.mark.parametrize(
    ("said", "asked"), [("", False), ("forward_agent = true", True), ("forward_agent = false", False)]
)
def test_the_inventory_asks(tmp_path: Path, said: str, *, asked: bool) -> None:
    file = tmp_path / "inventory.toml"
    file.write_text(
        f"[hosts.a]\naddress = '192.0.2.1'\n{said}\n[jobs.j]\nengine = 'command'\ncommand = ['x']\noutput = '/o'"
    )
    (target,) = targets.resolve(inventory.load(file), None, None)
    assert target.ssh.forward_agent is asked


@pytest.mark.parametrize(
    ("interval", "count", "every", "within", "said"),
    [
        (0, 3, math.inf, math.inf, False),
        (1, 1, 1.0, 1.0, False),
        (2, 3, 2.0, 6.0, False),
        (5, 3, 5.0, 15.0, False),
        (60, 3, 60.0, 180.0, True),
        (1, 600, 1.0, 600.0, True),
        (15, 0, math.inf, math.inf, False),
    ],
)
@pytest.mark.parametrize("openssh", [True, False])
def test_how_long_silence_may_last(
    config: Callable[[str], str], monkeypatch: pytest.MonkeyPatch,
    *, interval: int, count: int, every: float, within: float, said: bool, openssh: bool,
) -> None:  # fmt: skip
    if not openssh:
        monkeypatch.setattr(shutil, "which", lambda _: None)
    settings = SshSettings(name="a", address="192.0.2.1")
    (hop,) = route(settings, ssh_config=config(f" ServerAliveInterval {interval}\n ServerAliveCountMax {count}\n"))
    assert (hop.alive_every, hop.alive_within) == (every, within)
    assert any("ServerAliveInterval" in note for note in hop.notes) is said


def test_a_stricter_interval_finds_a_dead_link_sooner(sshd_server: Server, config: Callable[[str], str]) -> None:
    lines = config(" ServerAliveInterval 1\n ServerAliveCountMax 1\n")
    with Proxy(sshd_server.port) as proxy:
        link = open_link(sshd_server.settings(port=proxy.port), ssh_config=lines, pin_file=sshd_server.pins)
        assert link.run(Command(("true",))).code == 0
        proxy.stall()
        with pytest.raises(LinkLost, match="has not answered for 1 s"):
            link.run(Command(("true",)), deadline=BEAT + SILENCE)
        link.close()
