"""Certificates of users: beside the key, named, in the agent, broken, expired."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from local.errors import Denied
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import KINDS, TRUE, certify

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("where", ["beside", "named"])
def test_certificates_of_users(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, kind: str, where: str
) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    certificate = certify(server, key)
    config = ""
    if where == "named":
        certificate = certificate.rename(tmp_path / "elsewhere.pub")
        config = f" CertificateFile {certificate}\n"
    assert link(config, identity_file=str(key)).run(TRUE).code == 0


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_certificates_with_keys_that_an_agent_holds(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path, kind: str
) -> None:
    key = keys.key(tmp_path / "key", *KINDS[kind])
    keys.add(sock, key)
    certificate = certify(server, key)
    key.unlink()
    assert link(" IdentitiesOnly yes\n", identity_file=str(key)).run(TRUE).code == 0
    certificate.unlink()
    with pytest.raises(Denied):
        link(identity_file=str(key)).run(TRUE)


def test_certificates_that_an_agent_holds(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, sock: Path
) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519")
    certify(server, key)
    keys.add(sock, key)
    for file in tmp_path.glob("key*"):
        file.unlink()
    assert link().run(TRUE).code == 0


def test_a_broken_certificate_does_not_spoil_its_key(
    server: Server, link: Callable[..., SshLink], tmp_path: Path
) -> None:
    key = Path(shutil.copy(server.identity, tmp_path / "key"))
    (tmp_path / "key-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")
    assert link(identity_file=str(key)).run(TRUE).code == 0


def test_an_expired_certificate_is_named(server: Server, link: Callable[..., SshLink], tmp_path: Path) -> None:
    key = keys.key(tmp_path / "key", "-t", "ed25519")
    certificate = certify(server, key, "-V", "-2d:-1d")
    with pytest.raises(Denied) as caught:
        link(identity_file=str(key)).run(TRUE)
    assert f"ssh-ed25519-cert-v01@openssh.com {keys.fingerprint(key)} ({certificate})" in str(caught.value)
