"""What hosts and users show: host certificates from the wire, key files and the certificates beside them."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization.ssh import SSHCertificateBuilder, SSHCertificateType

from local.errors import HostKeyError
from local.links import hostcerts, identities, revocations
from local.links.identities import WrongPassphrase
from local.links.knownhosts import Key
from tests.fuzz.budget import fuzzed
from tests.fuzz.strange import cut

if TYPE_CHECKING:
    from pathlib import Path

OPENSSH, PEM = serialization.PrivateFormat.OpenSSH, serialization.PrivateFormat.TraditionalOpenSSL
NOW = 2_000_000_000


def _private(format_: serialization.PrivateFormat, passphrase: bytes | None = None) -> bytes:
    key = (
        ec.derive_private_key(7, ec.SECP256R1())
        if format_ is PEM
        else ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
    )
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        builder = format_.encryption_builder()
        lock = (builder.kdf_rounds(1) if format_ is OPENSSH else builder).build(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, format_, lock)


def _certificate(kind: SSHCertificateType) -> bytes:
    authority = ed25519.Ed25519PrivateKey.from_private_bytes(b"a" * 32)
    host = ed25519.Ed25519PrivateKey.from_private_bytes(b"h" * 32)
    builder = (
        SSHCertificateBuilder()
        .public_key(host.public_key())
        .type(kind)
        .key_id(b"id")
        .valid_principals([b"gpu01", b"*.example"])
        .valid_after(NOW - 10)
        .valid_before(NOW + 10)
    )
    return builder.sign(authority).public_bytes()


HOST = _certificate(SSHCertificateType.HOST)
WIRE = base64.b64decode(HOST.split()[1])
AUTHORITY = hostcerts.read(WIRE).authority


def test_the_certificate_that_is_bent_holds_as_it_is() -> None:
    assert hostcerts.why_not(hostcerts.read(WIRE), "gpu01", now=NOW) is None


@fuzzed(2500, cut(WIRE, base64.b64decode(_certificate(SSHCertificateType.USER).split()[1])))
def test_host_certificates(folder: Path, data: bytes) -> None:
    del folder
    try:
        certificate = hostcerts.read(data)
    except hostcerts.NotACertificate:
        return
    why = hostcerts.why_not(certificate, "gpu01", now=NOW)
    assert data == WIRE or why or certificate.authority != AUTHORITY


@fuzzed(1500, cut(_private(OPENSSH), _private(PEM), _private(OPENSSH, b"secret"), HOST))
def test_key_files(folder: Path, data: bytes) -> None:
    file, beside = folder / "key", folder / "key-cert.pub"
    file.touch(0o600)
    file.write_bytes(data)
    beside.write_bytes(data)
    identity = identities.look(file)
    assert identities.certificates(identity, [file]) is not None
    if identity.why:
        return
    try:
        opened = identity.key("secret" if identity.locked else None)
    except (WrongPassphrase, ValueError) as error:
        assert str(error)
    else:
        assert opened.can_sign()


@fuzzed(
    1500, cut(b"SSHKRL\n\0" + bytes(40), b"# gone\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3mrpy0Bq0nFPBNQgQrlGUqjO4W\n")
)
def test_revoked_keys(folder: Path, data: bytes) -> None:
    if data.startswith(revocations.KRL):
        data = b" " + data  # what a KRL is, ssh-keygen says
    file = folder / "revoked"
    file.write_bytes(data)
    try:
        revocations.revoked(file, [Key("ssh-ed25519", b"blob")])
    except HostKeyError as error:
        assert str(file) in str(error)
