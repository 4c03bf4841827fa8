"""Options of ssh_config, as OpenSSH resolves them: honoured against a real server, or said not to be."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from local.errors import HostKeyError, Unreachable, UsageError
from local.links import sshconfig, sshoptions
from local.links.base import Command
from local.links.settings import SshSettings
from local.links.ssh import open_link
from local.links.sshconfig import resolve
from tests.ssh.servers import needs_openssh

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.links.hops import Resolved
    from tests.ssh.servers import Server

pytestmark = needs_openssh

TRUE = Command(("true",))


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Resolved]:
    """Resolve a host under lines of ssh_config."""

    def find(config: str, address: str = "gpu", **more: object) -> Resolved:
        (tmp_path / "config").write_text(config)
        settings = SshSettings(name="x", address=address, **more)  # type: ignore[arg-type]
        return resolve(settings, ssh_config=str(tmp_path / "config"))

    return find


@pytest.fixture
def connect(sshd_server: Server, tmp_path: Path) -> Callable[..., list[str]]:
    """Connect under lines of ssh_config; gives the notices."""

    def make(config: str, **changes: object) -> list[str]:
        file = tmp_path / "config"
        file.write_text(f"Host *\n{config}")
        made = open_link(sshd_server.settings(**changes), ssh_config=str(file), pin_file=tmp_path / "pins")
        try:
            assert made.run(TRUE).code == 0
        finally:
            made.close()
        return made.notices

    return make


def public(server: Server) -> str:
    return " ".join(server.host_key.with_suffix(".pub").read_text().split()[:2])


def test_included_files_and_matches(found: Callable[..., Resolved], tmp_path: Path) -> None:
    (tmp_path / "more").write_text("Host gpu\n HostName 192.0.2.7\n")
    hop = found(
        f'Include {tmp_path}/mor*\nMatch host 192.0.2.7 exec "test %n = gpu"\n Port 2207\n'
        "Match user alice\n Port 2299\nMatch originalhost gpu user bob\n HostKeyAlias bobs\n",
        user="bob",
    )
    assert (hop.host, hop.port, hop.user, hop.known_as) == ("192.0.2.7", 2207, "bob", "bobs")


def test_the_command_lines_port_and_user_win(found: Callable[..., Resolved]) -> None:
    config = "Host gpu\n User alice\n Port 2200\n HostName 192.0.2.1\nMatch user root\n IdentitiesOnly yes\n"
    assert str(found(config)) == "alice@192.0.2.1:2200"
    told = found(config, user="root", port=22)
    assert (str(told), told.identities_only) == ("root@192.0.2.1:22", True)


def test_canonical_names(found: Callable[..., Resolved]) -> None:
    config = "CanonicalizeHostname yes\nCanonicalDomains invalid\nCanonicalizeFallbackLocal yes\nHost gpu\n Port 2201\n"
    assert found(config, "localhost.").port == 22
    assert found(config).port == 2201


def test_tokens_and_variables(found: Callable[..., Resolved], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/keys")
    hop = found(
        "Host gpu\n HostName 192.0.2.1\n Port 2200\n CertificateFile ~/%n.pub\n"
        " IdentityFile ${KEYS}/%n-%h-%p-%r-%u-%%\n"
        " HostKeyAlias the-gpu\n UserKnownHostsFile ~/known-%k %d/other\n GlobalKnownHostsFile none\n"
        " ProxyCommand relay %n %h %p %r\n RevokedHostKeys /revoked-%h\n",
        user="bob",
    )
    home = Path.home()
    assert hop.identities == (Path(f"/keys/gpu-192.0.2.1-2200-bob-{getpass.getuser()}-%"),)
    assert hop.certificates == (home / "gpu.pub",)
    assert hop.known_hosts == (home / "known-the-gpu", home / "other")
    assert hop.proxy_command == "relay gpu 192.0.2.1 2200 bob"
    assert hop.revoked == Path("/revoked-192.0.2.1")


def test_an_alias_brings_its_options_for_the_address_given(found: Callable[..., Resolved]) -> None:
    config = "Host gpu\n HostName 192.0.2.1\n ProxyCommand relay %h %p\nMatch host 192.0.2.2\n Port 2202\n"
    hop = found(config, "192.0.2.2", alias="gpu")
    assert (hop.host, hop.port, hop.proxy_command) == ("192.0.2.2", 2202, "relay 192.0.2.2 2202")


def test_known_hosts_files_with_spaces_in_their_names(found: Callable[..., Resolved], tmp_path: Path) -> None:
    (tmp_path / "my own hosts").touch()
    hop = found(f'UserKnownHostsFile "{tmp_path}/my own hosts" {tmp_path}/others\nGlobalKnownHostsFile none\n')
    assert hop.known_hosts == (tmp_path / "my own hosts", tmp_path / "others")


def test_a_match_that_hangs_is_not_waited_for(
    found: Callable[..., Resolved], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sshconfig, "SECONDS", 0.5)
    begun = time.monotonic()
    with pytest.raises(UsageError, match=r"gave no answer in 0\.5 s") as caught:
        found(f'Match exec "echo $$ > {tmp_path}/pid; sleep 61; true"\n Port 1\n')
    assert time.monotonic() - begun < 20
    assert "Match exec" in str(caught.value)
    pid = int((tmp_path / "pid").read_text())
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() - begun < 20, "what it started goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("policy", ["accept-new", "strict"])
def test_strict_host_key_checking_of_ssh_config(connect: Callable[..., list[str]], tmp_path: Path, policy: str) -> None:
    files = " UserKnownHostsFile none\n GlobalKnownHostsFile none\n StrictHostKeyChecking {}\n"
    for word in ("yes", "true"):
        with pytest.raises(HostKeyError, match="is not known, and the choice is strict"):
            connect(files.format(word), host_key=policy)
    assert not (tmp_path / "pins").exists()
    for word in ("ask", "accept-new", "no"):
        (tmp_path / "pins").unlink(missing_ok=True)
        if policy == "strict":
            with pytest.raises(HostKeyError):
                connect(files.format(word), host_key=policy)
        else:
            (notice,) = connect(files.format(word), host_key=policy)
            assert "its key is now pinned" in notice


@pytest.mark.parametrize("option", ["UserKnownHostsFile {0}/none {0}/known", "GlobalKnownHostsFile {0}/known"])
def test_known_hosts_files_that_ssh_config_names(
    sshd_server: Server, connect: Callable[..., list[str]], tmp_path: Path, option: str
) -> None:
    (tmp_path / "known").write_text(f"[127.0.0.1]:{sshd_server.port} {public(sshd_server)}\n")
    assert connect(f" {option.format(tmp_path)}\n", host_key="strict") == []


def test_what_in_known_hosts_is_not_used_is_told_when_it_matters(
    sshd_server: Server, connect: Callable[..., list[str]], tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{sshd_server.port} ssh-ed25519 AAAA\n")
    config = f" UserKnownHostsFile {known} {tmp_path}\n GlobalKnownHostsFile none\n"
    with pytest.raises(HostKeyError, match=f"Not used: {known}:1 is not understood") as caught:
        connect(config, host_key="strict")
    assert "(and 1 more)" in str(caught.value)
    (notice,) = connect(config)
    assert f"Not used: {known}:1 is not understood" in notice
    assert connect(config) == []


def test_a_source_address_and_a_family(connect: Callable[..., list[str]], sshd_server: Server, tmp_path: Path) -> None:
    base = " UserKnownHostsFile none\n"
    connect(f"{base} BindAddress 127.0.0.1\n AddressFamily inet\n")
    with pytest.raises(Unreachable, match="cannot be reached"):
        connect(f"{base} BindAddress 192.0.2.1\n")
    with pytest.raises(Unreachable):
        connect(f"{base} AddressFamily inet6\n")
    file = tmp_path / "config"
    file.write_text(f"Host *\n{base} BindAddress 127.0.0.9\n")
    made = open_link(sshd_server.settings(), ssh_config=str(file), pin_file=tmp_path / "pins")
    assert made.run(Command(("sh", "-c", 'echo "${SSH_CONNECTION%% *}"'))).stdout == b"127.0.0.9\n"
    made.close()


def test_a_connect_timeout(found: Callable[..., Resolved]) -> None:
    assert found("ConnectTimeout 3\n").connect_timeout == 3.0
    assert found("ConnectTimeout 3\n", connect_timeout=7.0).connect_timeout == 7.0
    assert found("").connect_timeout == 15.0


@pytest.mark.parametrize(
    "option",
    [
        "KexAlgorithms ecdh-sha2-nistp256", "Ciphers aes256-ctr", "MACs hmac-sha2-512", "HostKeyAlgorithms ssh-ed25519",
        "KexAlgorithms +diffie-hellman-group14-sha256", "Ciphers -aes128-ctr",
    ],
)  # fmt: skip
def test_algorithms_that_ssh_config_chooses(connect: Callable[..., list[str]], option: str) -> None:
    connect(f" UserKnownHostsFile none\n {option}\n")


@pytest.mark.parametrize(
    ("option", "name"),
    [("Ciphers chacha20-poly1305@openssh.com", "Ciphers"), ("MACs umac-64@openssh.com", "MACs")],
)
def test_algorithms_that_paramiko_does_not_know(connect: Callable[..., list[str]], option: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"none of ssh_config's {name} for .* is known to Paramiko"):
        connect(f" UserKnownHostsFile none\n {option}\n")


def test_the_cipher_chosen_is_the_one_in_use(sshd_server: Server, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Host *\n UserKnownHostsFile none\n Ciphers aes192-ctr\n")
    made = open_link(sshd_server.settings(), ssh_config=str(file), pin_file=tmp_path / "pins")
    made.run(TRUE)
    cipher = made._connection.transport.remote_cipher  # type: ignore[union-attr]
    made.close()
    assert cipher == "aes192-ctr"


IGNORED = [
    "RemoteCommand echo no", "RequestTTY force", "LocalForward 127.0.0.1:1 127.0.0.1:1", "ControlMaster auto",
    "AddKeysToAgent yes", "SendEnv LANG", "ServerAliveInterval 1", "ServerAliveCountMax 1", "Compression yes",
    "LogLevel QUIET", "PermitLocalCommand yes", "LocalCommand touch pwned", "SessionType none", "StdinNull yes",
    "ForkAfterAuthentication yes", "ForwardX11 yes", "GSSAPIAuthentication yes", "UpdateHostKeys yes", "Tunnel no",
]  # fmt: skip


@pytest.mark.parametrize("option", IGNORED)
def test_options_that_are_for_a_person_at_a_terminal_change_nothing(
    connect: Callable[..., list[str]], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (notice,) = connect(f" UserKnownHostsFile none\n {option}\n")
    assert "is now pinned" in notice
    assert not (tmp_path / "pwned").exists()


TOLD = ["ForwardAgent yes", "KnownHostsCommand /bin/true", "VerifyHostKeyDNS yes", "CheckHostIP yes",
        "PKCS11Provider /nowhere.so", "HostbasedAuthentication yes", "BindInterface lo", "Tunnel yes",
        "ProxyUseFdpass yes", "SetEnv NAME=value"]  # fmt: skip


@pytest.mark.parametrize("option", TOLD)
def test_options_that_are_not_honoured_are_said_once(connect: Callable[..., list[str]], option: str) -> None:
    told = [note for note in connect(f" UserKnownHostsFile none\n {option}\n") if "not honoured" in note]
    assert len(told) == 1
    assert told[0].startswith(f"ssh_config's {option.split(maxsplit=1)[0]} ")


def test_what_nobody_set_is_not_spoken_of(found: Callable[..., Resolved]) -> None:
    hop = found("")
    assert hop.notes == ()
    assert dict(hop.algorithms) == {}


def test_the_users_files_stay_as_they_are(
    sshd_server: Server, connect: Callable[..., list[str]], tmp_path: Path
) -> None:
    users, system = tmp_path / "users", tmp_path / "system"
    users.write_text(f"elsewhere {public(sshd_server)}\n")
    system.write_text("# nothing\n")
    stamps = []
    for file in (users, system):
        os.utime(file, ns=(10**18, 10**18))
        stamps.append((file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino))
    connect(f" UserKnownHostsFile {users}\n GlobalKnownHostsFile {system}\n UpdateHostKeys yes\n HashKnownHosts yes\n")
    assert [(file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino) for file in (users, system)] == stamps
    assert (tmp_path / "pins").stat().st_mode & 0o777 == 0o600


def test_the_agent_that_ssh_config_names_is_found(
    monkeypatch: pytest.MonkeyPatch, found: Callable[..., Resolved]
) -> None:
    monkeypatch.setenv("MY_AGENT", "/agent")
    assert found("IdentityAgent none\n").agent == ""
    assert found("IdentityAgent SSH_AUTH_SOCK\n").agent is None
    assert found("IdentityAgent $MY_AGENT\n").agent == "/agent"
    assert found("IdentityAgent ~/agent-%r\n", user="bob").agent == str(Path.home() / "agent-bob")
    assert found("").agent is None


@pytest.mark.parametrize("text", ["", "user x\n", "hostname a\nport b\nuser c\n"])
def test_an_answer_that_lacks_what_counts_is_an_error(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        sshoptions.hop(sshconfig.parse(text), "gpu", {})


def test_a_family_is_read(found: Callable[..., Resolved]) -> None:
    assert found("AddressFamily inet6\n").family == socket.AF_INET6
    assert found("").family == socket.AF_UNSPEC


def test_openssh_accepts_what_these_tests_write(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("".join(f"{option}\n" for option in (*IGNORED, *TOLD)))
    words = ["ssh", "-F", str(tmp_path / "config"), "-G", "gpu"]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
