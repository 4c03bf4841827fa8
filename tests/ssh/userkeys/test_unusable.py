"""Keys that cannot be used: named with the reason, and in nobody's way."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from local.errors import Denied
from tests.ssh import keys, sshd
from tests.ssh.servers import needs_openssh
from tests.ssh.userkeys.making import KINDS, TRUE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from local.links.ssh import SshLink
    from tests.ssh.servers import Server

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]


def security_key(path: Path) -> Path:
    """Write the file of a security key as ssh-keygen does: without the device it is good for nothing."""

    def field(value: bytes) -> bytes:
        return len(value).to_bytes(4) + value

    public = field(b"sk-ssh-ed25519@openssh.com") + field(bytes(32)) + field(b"ssh:")
    body = b"openssh-key-v1\0" + field(b"none") + field(b"none") + field(b"") + (1).to_bytes(4) + field(public)
    text = base64.b64encode(body + field(bytes(64))).decode()
    path.touch(0o600)
    path.write_text(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
    return path


def readable(path: Path) -> Path:
    keys.key(path, "-t", "ed25519").chmod(0o640)
    return path


def written(content: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.touch(0o600)
        path.write_bytes(content)
        return path

    return write


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def locked(kind: str) -> Callable[[Path], Path]:
    return lambda path: keys.key(path, *KINDS[kind], passphrase="secret")


TORN = b"-----BEGIN %b PRIVATE KEY-----\nAAAA\n-----END %b PRIVATE KEY-----\n"
UNUSABLE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: path, "does not exist"),
    "readable by others": (readable, r"others may read it, which ssh refuses too: chmod 600 .*key"),
    "a security key": (security_key, "a security key: it works through ssh-agent only"),
    "a folder": (folder, "Is a directory"),
    "empty": (written(b""), "not a usable key"),
    "garbage": (written(b"\xff\xfe\0"), "not a usable key"),
    "a torn key": (written(TORN % (b"OPENSSH", b"OPENSSH")), "not a usable key"),
    "a torn PEM": (written(TORN % (b"RSA", b"RSA")), "not a usable key"),
    "locked": (locked("ed25519"), "needs its passphrase: load it into ssh-agent"),
    "locked PEM": (locked("rsa-pem"), "needs its passphrase: load it into ssh-agent"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_keys_that_cannot_be_used_are_named_with_the_reason(
    link: Callable[..., SshLink], tmp_path: Path, case: str
) -> None:
    make, why = UNUSABLE[case]
    key = make(tmp_path / "key")
    with pytest.raises(Denied, match=rf"not usable: {key} \({why}"):
        link(" IdentityFile none\n", identity_file=str(key)).run(TRUE)


@pytest.mark.parametrize("case", UNUSABLE)
def test_keys_that_cannot_be_used_do_not_hold_the_others_up(
    server: Server, link: Callable[..., SshLink], tmp_path: Path, case: str
) -> None:
    key = UNUSABLE[case][0](tmp_path / "key")
    assert link(f" IdentityFile {server.identity}\n", identity_file=str(key)).run(TRUE).code == 0
