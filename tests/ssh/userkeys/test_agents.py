"""Keys that an agent holds: which of them are tried, from which agent, and none lent by ssh_config."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from local.errors import Denied
from local.links.base import Command
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import TRUE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


def test_the_configured_key_goes_before_eight_wrong_ones_of_the_agent(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    keys.add(sock, *(keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)))
    assert link(identity_file=str(server.identity)).run(TRUE).code == 0
    assert link(f" IdentityFile {server.identity}\n").run(TRUE).code == 0


def test_too_many_wrong_keys_are_counted_and_named(link: Callable[..., SshLink], tmp_path: Path, sock: Path) -> None:
    wrong = [keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)]
    keys.add(sock, *wrong)
    with pytest.raises(Denied, match="Too many authentication failures") as caught:
        link().run(TRUE)
    told = str(caught.value)
    assert [keys.fingerprint(key) in told for key in wrong] == [True] * 6 + [False] * 2
    assert "(agent: wrong0)" in told
    assert "IdentitiesOnly yes" in told
    assert caught.value.exit_code == 4


def test_identities_only_and_an_agent_that_holds_the_named_key(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    keys.add(sock, *(keys.key(tmp_path / f"wrong{number}", "-t", "ed25519") for number in range(8)), server.identity)
    public = tmp_path / "only.pub"
    shutil.copy(f"{server.identity}.pub", public)
    assert link(f" IdentitiesOnly yes\n IdentityFile {public}\n").run(TRUE).code == 0
    assert link(" IdentitiesOnly yes\n", identity_file=str(public)).run(TRUE).code == 0
    with pytest.raises(Denied, match="no key was offered"):
        link(f" IdentitiesOnly yes\n IdentityFile {tmp_path}/nowhere\n").run(TRUE)


def test_a_public_key_that_no_agent_holds(server: Server, link: Callable[..., SshLink]) -> None:
    with pytest.raises(Denied, match=r"user_key\.pub \(a public key, and no agent holds the private one\)"):
        link(identity_file=f"{server.identity}.pub").run(TRUE)


@pytest.mark.parametrize("value", ["{sock}", "$OTHER_SOCK", "${{OTHER_SOCK}}"])
def test_the_agent_that_ssh_config_names(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    with keys.agent(tmp_path / "other") as sock:
        keys.add(sock, server.identity)
        monkeypatch.setenv("OTHER_SOCK", str(sock))
        assert link(f" IdentityAgent {value.format(sock=sock)}\n").run(TRUE).code == 0


def test_no_agent_where_ssh_config_says_none(server: Server, link: Callable[..., SshLink], sock: Path) -> None:
    keys.add(sock, server.identity)
    assert link().run(TRUE).code == 0
    with pytest.raises(Denied, match="no key was offered"):
        link(" IdentityAgent none\n").run(TRUE)


def test_an_agent_that_is_gone_holds_nothing(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    assert link(identity_file=str(server.identity)).run(TRUE).code == 0


def test_an_agent_is_not_forwarded_even_where_ssh_config_asks_for_it(
    server: Server, link: Callable[..., SshLink], sock: Path
) -> None:
    keys.add(sock, server.identity)
    made = link(" ForwardAgent yes\n")
    assert made.run(Command(("sh", "-c", 'echo "<$SSH_AUTH_SOCK>"'))).stdout == b"<>\n"
    assert any("ForwardAgent yes is not honoured" in note for note in made.notices)
