"""ssh_config: what OpenSSH says about a host, under what the inventory says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from local.errors import Unreachable, UsageError
from local.links import sshconfig
from local.links.base import Command
from local.links.settings import SshSettings
from local.links.ssh import open_link
from local.links.sshconfig import hop, resolve
from tests.ssh.servers import make_key, needs_openssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.ssh.servers import Server

CONFIG = """
Host gpu
  HostName 192.0.2.11
  Port 2200
  User alice
  IdentityFile {folder}/one
  IdentityFile {folder}/%r-key
  IdentitiesOnly yes
  ProxyJump bob@192.0.2.1:2201,gate
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  HostKeyAlias The-GPU
  ForwardAgent yes
Host gate
  HostName 192.0.2.2
"""


pytestmark = needs_openssh


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(folder=tmp_path))
    return str(file)


def settings(address: str, **more: object) -> SshSettings:
    return SshSettings(name="x", address=address, **more)  # type: ignore[arg-type]


def test_everything_from_ssh_config(config: str, tmp_path: Path) -> None:
    found = resolve(settings("gpu"), ssh_config=config)
    assert (found.host, found.port, found.user) == ("192.0.2.11", 2200, "alice")
    assert found.identities == (tmp_path / "one", tmp_path / "alice-key")
    assert found.identities_only
    assert found.jumps == ("bob@192.0.2.1:2201", "gate")
    assert found.known_hosts == (tmp_path / "known_hosts",)
    assert found.known_as == "the-gpu"
    assert str(found) == "alice@192.0.2.11:2200"


def test_explicit_settings_win(config: str, tmp_path: Path) -> None:
    given = settings("gpu", port=22, user="root", identity_file="~/mine", jump="none")
    found = resolve(given, ssh_config=config)
    assert (found.host, found.port, found.user, found.jumps) == ("192.0.2.11", 22, "root", ())
    assert found.identities == (Path("~/mine").expanduser(), tmp_path / "one", tmp_path / "root-key")


def test_an_alias_brings_all_but_the_address(config: str) -> None:
    found = resolve(settings("192.0.2.77", alias="gpu"), ssh_config=config)
    assert (found.host, found.port, found.user) == ("192.0.2.77", 2200, "alice")


def test_an_alias_that_is_the_address(config: str) -> None:
    assert resolve(settings("gpu", alias="gpu"), ssh_config=config).host == "192.0.2.11"


def test_without_ssh_config_the_defaults_hold() -> None:
    found = resolve(settings("192.0.2.5", user="root"), ssh_config="none")
    assert (found.host, found.port, found.user, found.jumps) == ("192.0.2.5", 22, "root", ())
    assert found.known_as == "192.0.2.5"
    assert found.notes == ()


@pytest.mark.parametrize("address", ["-oProxyCommand=touch pwned", "a b", "a\nb"])
def test_hosts_that_are_options_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="neither a host nor a user"):
        resolve(settings(address), ssh_config="none")


def test_a_broken_ssh_config_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Nonsense yes\n")
    with pytest.raises(UsageError, match="ssh_config cannot be read for gpu"):
        resolve(settings("gpu"), ssh_config=str(file))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("192.0.2.1", ("192.0.2.1", 22)),
        ("bob@192.0.2.1:2201", ("192.0.2.1", 2201)),
        ("ssh://bob@192.0.2.1:2201/", ("192.0.2.1", 2201)),
        ("[::1]:2201", ("::1", 2201)),
        ("::1", ("::1", 22)),
        ("gate", ("192.0.2.2", 22)),
    ],
)
def test_jump_hosts(config: str, text: str, place: tuple[str, int]) -> None:
    found = hop(text, ssh_config=config, settings=settings("gpu"))
    assert (found.host, found.port) == place
    assert found.user == "bob" or "@" not in text


@pytest.mark.parametrize("text", ["", "bob@", "host:port", "host:²"])
def test_what_is_no_jump_host_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form"):
        hop(text, ssh_config="none", settings=settings("gpu"))


def test_without_openssh_paramikos_parser_serves_and_says_so(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshconfig.shutil, "which", lambda _: None)  # type: ignore[attr-defined]
    found = resolve(settings("gpu", user="root"), ssh_config=config)
    assert (found.host, found.port, found.user) == ("192.0.2.11", 2200, "root")
    assert found.identities[0] == tmp_path / "one"
    assert "are not honoured" in found.notes[0]
    assert "ForwardAgent yes is not honoured" in found.notes[1]


def test_an_alias_leads_to_a_real_host(sshd_server: Server, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"Host gpu\n HostName 127.0.0.1\n Port {sshd_server.port}\n User {sshd_server.user}\n"
        f" IdentityFile {sshd_server.identity}\n UserKnownHostsFile none\n"
    )
    link = open_link(settings("gpu"), ssh_config=str(file), pin_file=tmp_path / "pins")
    assert link.run(Command(("echo", "here"))).stdout == b"here\n"
    link.close()
    assert f"[127.0.0.1]:{sshd_server.port}" in (tmp_path / "pins").read_text()


def test_a_key_with_a_passphrase_is_named(sshd_server: Server, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(key), password="secret")
    link = sshd_server.link(identity_file=str(key))
    with pytest.raises(Unreachable, match=r"locked \(needs its passphrase: load it into ssh-agent"):
        link.run(Command(("true",)))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    sock = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline()  # it tells its socket once that is there
        monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))
        yield lambda key: subprocess.run(["ssh-add", "-q", key], check=True) and None
        running.terminate()


@pytest.mark.parametrize("only", ["yes", "no"])
def test_a_locked_key_that_the_agent_holds_lets_us_in(
    sshd_server: Server, tmp_path: Path, agent: Callable[[Path], None], only: str
) -> None:
    key = tmp_path / "key"
    for suffix in ("", ".pub"):
        shutil.copy(f"{sshd_server.identity}{suffix}", f"{key}{suffix}")
    agent(key)
    agent(make_key(tmp_path / "other"))
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", key], check=True, capture_output=True)
    file = tmp_path / "config"
    file.write_text(f"Host *\n IdentitiesOnly {only}\n IdentityFile {key}\n UserKnownHostsFile none\n")
    link = open_link(sshd_server.settings(identity_file=None), ssh_config=str(file), pin_file=tmp_path / "pins")
    assert link.run(Command(("true",))).code == 0
    link.close()


def test_identities_only_keeps_the_agents_other_keys_back(
    sshd_server: Server, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    agent(sshd_server.identity)
    file = tmp_path / "config"
    wrong = make_key(tmp_path / "wrong")
    file.write_text(f"Host *\n IdentitiesOnly yes\n IdentityFile {wrong}\n UserKnownHostsFile none\n")
    link = open_link(sshd_server.settings(identity_file=None), ssh_config=str(file), pin_file=tmp_path / "pins")
    with pytest.raises(Unreachable, match="lets none of our keys in"):
        link.run(Command(("true",)))


def test_an_agent_is_not_forwarded_unasked(sshd_server: Server, agent: Callable[[Path], None]) -> None:
    agent(sshd_server.identity)
    link = sshd_server.link()
    assert link.run(Command(("sh", "-c", 'echo "<$SSH_AUTH_SOCK>"'))).stdout == b"<>\n"
    link.close()


def test_the_second_key_lets_us_in(sshd_server: Server, tmp_path: Path) -> None:
    wrong = make_key(tmp_path / "wrong")
    file = tmp_path / "config"
    file.write_text(f"Host *\n IdentityFile {wrong}\n IdentityFile {sshd_server.identity}\n UserKnownHostsFile none\n")
    link = open_link(sshd_server.settings(identity_file=None), ssh_config=str(file), pin_file=tmp_path / "pins")
    assert link.run(Command(("true",))).code == 0
    link.close()


RELAY = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        sock.sendall(data)
threading.Thread(target=up, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


def test_a_proxy_command_leads_to_the_host_and_ends_with_the_link(sshd_server: Server, tmp_path: Path) -> None:
    (tmp_path / "relay.py").write_text(RELAY)
    file = tmp_path / "config"
    file.write_text(
        f"Host *\n ProxyCommand {sys.executable} {tmp_path}/relay.py %h %p\n UserKnownHostsFile {tmp_path}/100%%\n"
    )
    link = open_link(sshd_server.settings(), ssh_config=str(file), pin_file=tmp_path / "pins")
    assert link.run(Command(("cat",)), stdin=b"x" * 2**20).stdout == b"x" * 2**20
    link.close()


@pytest.mark.parametrize("command", ["false", "/nowhere/nc %h %p", "sleep 5"])
def test_a_proxy_command_that_fails(sshd_server: Server, tmp_path: Path, command: str) -> None:
    file = tmp_path / "config"
    file.write_text(f"Host *\n ProxyCommand {command}\n UserKnownHostsFile none\n")
    settings = sshd_server.settings(banner_timeout=0.5)
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
        open_link(settings, ssh_config=str(file), pin_file=tmp_path / "pins").run(Command(("true",)))
