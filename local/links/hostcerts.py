"""Host certificates: an authority's word for a host's key, read and verified here: Paramiko does neither."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization.ssh import (
    SSHCertificate,
    SSHCertificateType,
    load_ssh_public_identity,
)

from local.links.fields import Fields
from local.links.knownhosts import Key, matches

SUFFIX = "-cert-v01@openssh.com"
FOREVER = 2**64 - 1
SMALLEST_RSA = 2048  # bits of an authority's key
# The fields of a public key between the nonce and the serial number, by type.
KEY_FIELDS = {
    "ssh-ed25519": 1,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "ssh-rsa": 2,
}
# What an authority may sign with: OpenSSH's CASignatureAlgorithms, which leaves SHA-1 out.
SIGNATURES = (
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512", "rsa-sha2-256",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it came over the wire, with whose it is."""

    blob: bytes
    authority: Key
    signature: str  # the algorithm
    key_id: str


class NotACertificate(ValueError):
    """The bytes are no certificate that we can read; the message says why."""


def read(blob: bytes) -> Certificate:
    """Read a certificate's frame; raises NotACertificate."""
    try:
        fields = Fields(blob)
        kind = fields.string().decode().removesuffix(SUFFIX)
        fields.skip(1 + KEY_FIELDS[kind])
        fields.number(12)  # serial, role
        key_id = fields.string().decode("utf-8", "replace")
        fields.skip(1)  # principals
        fields.number(16)  # after, before
        fields.skip(3)  # critical options, extensions, reserved
        signer, signature = fields.string(), fields.string()
        authority = Key(Fields(signer).string().decode(), signer)
        return Certificate(blob, authority, Fields(signature).string().decode(), key_id)
    except (KeyError, struct.error, UnicodeDecodeError) as error:
        raise NotACertificate(f"it cannot be read ({error})") from error


def why_not(certificate: Certificate, name: str, *, now: float, signatures: tuple[str, ...] = SIGNATURES) -> str | None:
    """Say why a certificate does not prove a host, None where it does. Its authority is for the caller to trust."""
    kind = Fields(certificate.blob).string()
    try:
        found = load_ssh_public_identity(kind + b" " + base64.b64encode(certificate.blob))
        if not isinstance(found, SSHCertificate):
            return "it is no certificate"
        if certificate.signature not in signatures:
            return f"it is signed with {certificate.signature}, which is not accepted"
        found.verify_cert_signature()
    except InvalidSignature:
        return "its signature is not the authority's"
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"it cannot be read ({error})"
    return _terms(found, name, now)


def _terms(found: SSHCertificate, name: str, now: float) -> str | None:
    """Say which of a certificate's own terms does not hold."""
    signer, principals = found.signature_key(), found.valid_principals
    terms = (
        (found.type is SSHCertificateType.HOST, "it is a user's certificate, not a host's"),
        (
            not isinstance(signer, rsa.RSAPublicKey) or signer.key_size >= SMALLEST_RSA,
            f"its authority's RSA key is shorter than {SMALLEST_RSA} bits",
        ),
        (not found.critical_options, f"it has options that are not understood: {_text(*found.critical_options)}"),
        (now >= found.valid_after, f"it is not valid before {_day(found.valid_after)}"),
        (now < found.valid_before, f"it expired on {_day(found.valid_before)}"),
        (
            not principals or any(matches(_text(one).replace(",", "?"), name) for one in principals),
            f"it is for {_text(*principals)}, not for {name}",
        ),
    )
    return next((why for holds, why in terms if not holds), None)


def _text(*words: bytes) -> str:
    return ", ".join(word.decode("utf-8", "replace") for word in words)


def _day(moment: int) -> str:
    if moment >= FOREVER:
        return "the end of time"
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"second {moment}"
