"""Key files of every kind, and what ssh_config says of their algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.errors import Denied
from local.links.identities import look
from local.links.passphrases import Keyring
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import KINDS, TRUE, allow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


@pytest.mark.parametrize("kind", KINDS)
def test_key_files_of_every_kind(server: Server, link: Callable[..., SshLink], tmp_path: Path, kind: str) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    allow(server, key)
    assert link(identity_file=str(key)).run(TRUE).code == 0


@pytest.mark.parametrize("kind", KINDS)
def test_locked_keys_of_every_kind_open_by_their_passphrase(tmp_path: Path, kind: str) -> None:
    key = look(keys.key(tmp_path / "key", *KINDS[kind], passphrase="correct horse"))
    answers = iter(["wrong", "correct horse"])
    keyring = Keyring(ask=lambda _: next(answers), terminal=lambda: True)
    opened = keyring.key(key, batch=False)
    assert opened.asbytes() == look(tmp_path / "key").public
    assert keyring.key(key, batch=False) is opened


def test_an_accepted_type_that_ssh_config_leaves_out(server: Server, link: Callable[..., SshLink]) -> None:
    with pytest.raises(Denied, match="PubkeyAcceptedAlgorithms leaves ssh-ed25519 out"):
        link(" PubkeyAcceptedAlgorithms rsa-sha2-512\n", identity_file=str(server.identity)).run(TRUE)


def test_rsa_signs_as_ssh_config_says(server: Server, link: Callable[..., SshLink], tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", *KINDS["rsa"])
    allow(server, key)
    made = link(" PubkeyAcceptedAlgorithms rsa-sha2-256\n", identity_file=str(key))
    assert made.run(TRUE).code == 0
    with pytest.raises(Denied, match="has only 2048 bits"):
        link(" RequiredRSASize 3072\n", identity_file=str(key)).run(TRUE)


@pytest.mark.parametrize("option", ["PubkeyAuthentication no", "PreferredAuthentications password"])
def test_keys_that_ssh_config_forbids(server: Server, link: Callable[..., SshLink], option: str) -> None:
    with pytest.raises(Denied, match="ssh_config forbids keys"):
        link(f" {option}\n", identity_file=str(server.identity)).run(TRUE)
