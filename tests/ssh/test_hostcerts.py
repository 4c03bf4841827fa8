"""Host certificates against a real sshd: @cert-authority lets a host in by its authority's word, and nothing less."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING

import pytest

from local.errors import HostKeyError
from local.links import hostcerts
from local.links.base import Command
from local.links.ssh import open_link
from tests.ssh import sshd
from tests.ssh.servers import make_key, needs_openssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.ssh.servers import Server

    Signer = Callable[..., Path]

pytestmark = [needs_openssh, pytest.mark.skipif(sshd.program() is None, reason="needs a real sshd")]

TRUE = Command(("true",))
NAME = "gpu01.example"  # what the certificate is for, by HostKeyAlias


def sign(ca: Path, key: Path, *options: str) -> None:
    words = ["ssh-keygen", "-q", "-s", ca, "-I", "id", "-h", "-n", NAME, *options, f"{key}.pub"]
    subprocess.run(words, check=True, capture_output=True)


def public(key: Path) -> str:
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


@pytest.fixture(params=["ed25519", "ecdsa", "rsa"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start a server that shows a certificate of the authority `ca`."""
    stack = []

    def start(kind: str = "ed25519", *options: str) -> Server:
        folder = tmp_path / "sshd"
        folder.mkdir()
        make_key(tmp_path / "ca", kind)
        key = make_key(folder / "certified_key", kind)
        sign(tmp_path / "ca", key, *options)
        more = f"HostKey {key}\nHostCertificate {key}-cert.pub"
        context = sshd.running(folder, more=more)
        stack.append(context)
        return context.__enter__()

    yield start
    for context in stack:
        context.__exit__(None, None, None)


def connect(server: Server, tmp_path: Path, known: str, more: str = "", policy: str = "strict") -> None:
    (tmp_path / "known_hosts").write_text(known)
    config = tmp_path / "config"
    config.write_text(f"Host *\n HostKeyAlias {NAME}\n UserKnownHostsFile {tmp_path}/known_hosts\n{more}")
    link = open_link(server.settings(host_key=policy), ssh_config=str(config), pin_file=tmp_path / "pins")
    try:
        assert link.run(TRUE).code == 0
        assert link.notices == []
    finally:
        link.close()


def test_an_authoritys_word_is_enough(certified: Callable[..., Server], tmp_path: Path, kind: str) -> None:
    server = certified(kind)
    connect(server, tmp_path, f"@cert-authority *.example {public(tmp_path / 'ca')}\n")
    assert not (tmp_path / "pins").exists()


def test_openssh_agrees(certified: Callable[..., Server], tmp_path: Path) -> None:
    server = certified()
    (tmp_path / "known_hosts").write_text(f"@cert-authority *.example {public(tmp_path / 'ca')}\n")
    words = [
        "ssh", "-F", "none", "-p", str(server.port), "-i", str(server.identity), "-o", f"HostKeyAlias={NAME}",
        "-o", f"UserKnownHostsFile={tmp_path}/known_hosts", "-o", "StrictHostKeyChecking=yes", "127.0.0.1", "true",
    ]  # fmt: skip
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-V", "-2d:-1d"), "it expired on"),
        (("-V", "+1d:+2d"), "it is not valid before"),
        (("-n", "gpu02.example"), f"it is for gpu02.example, not for {NAME}"),
        (("-O", "critical:verify-required"), "options that are not understood: verify-required"),
    ],
)
@pytest.mark.parametrize("policy", ["strict", "accept-new"])
def test_a_certificate_that_does_not_hold_stops(
    certified: Callable[..., Server], tmp_path: Path, options: tuple[str, ...], why: str, policy: str
) -> None:
    server = certified("ed25519", *options)
    with pytest.raises(HostKeyError, match=why) as caught:
        connect(server, tmp_path, f"@cert-authority * {public(tmp_path / 'ca')}\n", policy=policy)
    assert caught.value.exit_code == 6
    assert not (tmp_path / "pins").exists()


def test_the_key_itself_may_be_known_where_its_certificate_has_run_out(
    certified: Callable[..., Server], tmp_path: Path
) -> None:
    server = certified("ed25519", "-V", "-2d:-1d")
    known = f"@cert-authority * {public(tmp_path / 'ca')}\n{NAME} {public(server.folder / 'certified_key')}\n"
    connect(server, tmp_path, known)


def test_another_authoritys_word_counts_for_nothing(certified: Callable[..., Server], tmp_path: Path) -> None:
    server = certified()
    other = make_key(tmp_path / "other")
    with pytest.raises(HostKeyError, match="is not known, and the choice is strict"):
        connect(server, tmp_path, f"@cert-authority * {public(other)}\n")


def test_an_authority_is_no_host_key(certified: Callable[..., Server], tmp_path: Path) -> None:
    server = certified()
    with pytest.raises(HostKeyError, match="is not known, and the choice is strict"):
        connect(server, tmp_path, f"@cert-authority * {public(server.folder / 'certified_key')}\n")


@pytest.mark.parametrize("who", ["ca", "sshd/certified_key"])
def test_a_revoked_authority_or_key_stops(certified: Callable[..., Server], tmp_path: Path, who: str) -> None:
    server = certified()
    known = f"@cert-authority * {public(tmp_path / 'ca')}\n@revoked * {public(tmp_path / who)}\n"
    with pytest.raises(HostKeyError, match=r"is revoked by .*known_hosts:2"):
        connect(server, tmp_path, known, policy="accept-new")


@pytest.mark.parametrize("who", ["ca", "sshd/certified_key"])
@pytest.mark.parametrize("krl", [True, False], ids=["krl", "list"])
def test_revoked_host_keys_of_ssh_config(
    certified: Callable[..., Server],
    tmp_path: Path,
    who: str,
    krl: bool,  # noqa: FBT001
) -> None:
    server = certified()
    revoked = tmp_path / "revoked"
    if krl:
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", revoked, f"{tmp_path / who}.pub"], check=True)
    else:
        revoked.write_text(f"# gone\n{public(tmp_path / who)} comment\n")
    known = f"@cert-authority * {public(tmp_path / 'ca')}\n"
    with pytest.raises(HostKeyError, match=f"is revoked by {revoked}"):
        connect(server, tmp_path, known, f" RevokedHostKeys {revoked}\n")
    make_key(tmp_path / "another")
    if krl:
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", revoked, f"{tmp_path}/another.pub"], check=True)
    else:
        revoked.write_text(f"{public(tmp_path / 'another')}\n")
    connect(server, tmp_path, known, f" RevokedHostKeys {revoked}\n")


@pytest.mark.parametrize("content", [None, "garbage here\n", "SSHKRL\n\0broken"])
def test_a_list_of_revoked_keys_that_cannot_be_read_trusts_nobody(
    certified: Callable[..., Server], tmp_path: Path, content: str | None
) -> None:
    server = certified()
    if content is not None:
        (tmp_path / "revoked").write_text(content)
    with pytest.raises(HostKeyError, match=r"the revoked keys of .* cannot be read"):
        connect(server, tmp_path, f"{NAME} {public(server.host_key)}\n", f" RevokedHostKeys {tmp_path}/revoked\n")


def test_signatures_that_ssh_config_leaves_out(certified: Callable[..., Server], tmp_path: Path) -> None:
    server = certified("rsa")
    with pytest.raises(HostKeyError, match="it is signed with rsa-sha2-512, which is not accepted"):
        connect(
            server, tmp_path, f"@cert-authority * {public(tmp_path / 'ca')}\n", " CASignatureAlgorithms ssh-ed25519\n"
        )


def test_a_users_certificate_proves_no_host(tmp_path: Path) -> None:
    ca, key = make_key(tmp_path / "ca"), make_key(tmp_path / "key")
    words = ["ssh-keygen", "-q", "-s", ca, "-I", "id", "-n", NAME, f"{key}.pub"]
    subprocess.run(words, check=True, capture_output=True)
    certificate = hostcerts.read(blob(key))
    assert hostcerts.why_not(certificate, NAME, now=2e9) == "it is a user's certificate, not a host's"


def test_a_certificate_that_was_tampered_with(tmp_path: Path) -> None:
    ca, key = make_key(tmp_path / "ca"), make_key(tmp_path / "key")
    sign(ca, key)
    whole = blob(key)
    assert hostcerts.why_not(hostcerts.read(whole), NAME, now=2e9) is None
    for at in range(len(whole)):
        bent = bytearray(whole)
        bent[at] ^= 1
        try:
            certificate = hostcerts.read(bytes(bent))
        except hostcerts.NotACertificate:
            continue
        trusted = certificate.authority == hostcerts.read(whole).authority
        assert not trusted or hostcerts.why_not(certificate, NAME, now=2e9), f"byte {at} is not looked at"


def blob(key: Path) -> bytes:
    return base64.b64decode(key.with_name(f"{key.name}-cert.pub").read_text().split()[1])
