"""Two jump hosts on the way, each a server of its own: verified, let in by its own key, found as ssh_config says."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from local.errors import Denied, HostKeyError, Unreachable, UsageError
from local.links.base import Command
from local.links.ssh import open_link
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

TRUE = Command(("true",))
NAMES = ("first", "second", "gpu")


@pytest.fixture(scope="module")
def way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Three servers, each with keys of its own."""
    with (
        sshd.running(tmp_path_factory.mktemp("first")) as first,
        sshd.running(tmp_path_factory.mktemp("second")) as second,
        sshd.running(tmp_path_factory.mktemp("gpu")) as gpu,
    ):
        yield dict(zip(NAMES, (first, second, gpu), strict=True))


@pytest.fixture(autouse=True)
def _no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


def host_key(server: Server) -> str:
    return " ".join(server.host_key.with_suffix(".pub").read_text().split()[:2])


def write(way: dict[str, Server], tmp_path: Path, **more: str) -> Path:
    """Write an ssh_config that knows the three by name, each with its own known_hosts, port and key."""
    text = ""
    for name, server in way.items():
        known = tmp_path / f"known-{name}"
        known.write_text(f"{name} {host_key(server)}\n")
        text += f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n HostKeyAlias {name}\n"
        text += f" IdentityFile {server.identity}\n IdentitiesOnly yes\n UserKnownHostsFile {known}\n"
        text += f" GlobalKnownHostsFile none\n StrictHostKeyChecking yes\n{more.get(name, '')}"
    (tmp_path / "config").write_text(text)
    return tmp_path / "config"


def link(way: dict[str, Server], config: Path, **changes: object) -> SshLink:
    given = {"address": "gpu", "port": None, "user": None, "identity_file": None, **changes}
    return open_link(way["gpu"].settings(**given), ssh_config=str(config), pin_file=config.parent / "pins")


def port_seen(made: SshLink) -> int:
    """Tell at which port the server of the last hop was reached."""
    told = made.run(Command(("sh", "-c", 'echo "$SSH_CONNECTION"'))).stdout.decode().split()
    made.close()
    return int(told[3])


CHAINS = {
    "a list": {"gpu": " ProxyJump first,second\n"},
    "each its own": {"gpu": " ProxyJump second\n", "second": " ProxyJump first\n"},
    "the jump host's own command": {"gpu": " ProxyJump second\n", "second": " ProxyCommand {relay}\n"},
    "a list whose second has another way of its own": {
        "gpu": " ProxyJump first,second\n", "second": " ProxyCommand /nowhere\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("chain", CHAINS)
def test_two_jump_hosts(way: dict[str, Server], tmp_path: Path, chain: str) -> None:
    config = tmp_path / "config"
    relay = f"ssh -F {config} -W %h:%p first"
    write(way, tmp_path, **{name: line.format(relay=relay) for name, line in CHAINS[chain].items()})
    counts = [len((way[name].folder / "log").read_text().splitlines()) for name in NAMES]
    assert port_seen(link(way, config)) == way["gpu"].port
    after = [len((way[name].folder / "log").read_text().splitlines()) for name in NAMES]
    assert all(now > before for now, before in zip(after, counts, strict=True)), "each of them was passed"


def test_jump_hosts_of_the_inventory_win(way: dict[str, Server], tmp_path: Path) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump nowhere.invalid\n")
    assert port_seen(link(way, config, jump="first, second")) == way["gpu"].port


@pytest.mark.parametrize("which", NAMES)
def test_every_hop_is_verified(way: dict[str, Server], tmp_path: Path, which: str) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump first,second\n")
    other = keys.key(tmp_path / "other", "-t", "ed25519")
    public = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    (tmp_path / f"known-{which}").write_text(f"{which} {public}\n")
    with pytest.raises(HostKeyError, match=f"the host key of {which} has changed") as caught:
        link(way, config).run(TRUE)
    assert f"ssh-keygen -f {tmp_path}/known-{which} -R '{which}'" in str(caught.value)


@pytest.mark.parametrize("which", NAMES)
def test_every_hop_is_let_in_by_its_own_key(way: dict[str, Server], tmp_path: Path, which: str) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump first,second\n")
    wrong = keys.key(tmp_path / "wrong", "-t", "ed25519")
    config.write_text(config.read_text().replace(f"IdentityFile {way[which].identity}\n", f"IdentityFile {wrong}\n"))
    with pytest.raises(Denied, match=f"127.0.0.1:{way[which].port} lets none of our keys in"):
        link(way, config).run(TRUE)


def test_a_jump_host_that_cannot_reach_further(way: dict[str, Server], tmp_path: Path) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump first\n")
    with pytest.raises(Unreachable, match="beyond its jump host's reach"):
        link(way, config, port=1).run(TRUE)


def test_jump_hosts_without_end(way: dict[str, Server], tmp_path: Path) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump second\n", first=" ProxyJump second\n", second=" ProxyJump first\n")
    with pytest.raises(UsageError, match="have no end"):
        link(way, config).run(TRUE)


def test_jump_hosts_without_an_openssh_client(
    way: dict[str, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paramiko's parser serves: names, ports, keys, known_hosts and jump hosts as ssh_config says."""
    config = write(way, tmp_path, gpu=" ProxyJump first,second\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to(str(shutil.which("sh")))
    monkeypatch.setenv("PATH", str(tools))
    assert shutil.which("ssh") is None
    made = link(way, config)
    assert port_seen(made) == way["gpu"].port
    assert [note for note in made.notices if "OpenSSH client is not installed" in note] == made.notices
    assert not (tmp_path / "pins").exists()
    (tmp_path / "known-second").write_text(f"second {host_key(way['first'])}\n")
    with pytest.raises(HostKeyError, match="the host key of second has changed"):
        link(way, config).run(TRUE)


def test_openssh_goes_the_same_way(way: dict[str, Server], tmp_path: Path) -> None:
    config = write(way, tmp_path, gpu=" ProxyJump first,second\n")
    assert os.system(f"ssh -F {config} gpu true") == 0  # noqa: S605 - words of our own
