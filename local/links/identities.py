"""A user's key files: what is in them, whether they may be used, and the certificates beside them."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from paramiko.pkey import PublicBlob

from local.links.fields import Fields
from local.links.hostcerts import KEY_FIELDS, SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MISSING = "does not exist"
ONLY_PUBLIC = "a public key, and no agent holds the private one"
OTHERS = 0o077  # permissions that a private key gives nobody
SECURITY_KEY = "sk-"
_MAGIC = b"openssh-key-v1\0"
_OPENSSH = re.compile(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_CLASSES = (
    (ed25519.Ed25519PrivateKey, paramiko.Ed25519Key),
    (rsa.RSAPrivateKey, paramiko.RSAKey),
    (ec.EllipticCurvePrivateKey, paramiko.ECDSAKey),
)


class WrongPassphrase(ValueError):
    """The passphrase does not open the key."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A key file. `public` is its public key's wire form, if known; `why` says that it cannot be used itself."""

    path: Path
    public: bytes | None = None
    locked: bool = False
    why: str = ""
    content: bytes = b""

    def key(self, passphrase: str | None = None) -> Any:
        """Give the private key; raises WrongPassphrase, or ValueError that says what is wrong with the file."""
        password = passphrase.encode() if passphrase is not None else None
        try:
            loaded = _load(self.content, password)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            if self.locked and not isinstance(error, UnsupportedAlgorithm):
                raise WrongPassphrase(str(self.path)) from error
            raise ValueError(f"not a usable key: {error}") from error
        for kind, made in _CLASSES:
            if isinstance(loaded, kind):
                plain = loaded.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
                )
                return made.from_private_key(io.StringIO(plain.decode()))
        raise ValueError(f"keys of the type {type(loaded).__name__} are not supported")


def look(path: Path) -> Identity:
    """Look at a key file; what is wrong with it is said, not raised."""
    beside = _public(path.with_name(f"{path.name}.pub"))
    try:
        content = path.read_bytes()
        mode = path.stat()
    except FileNotFoundError:
        return Identity(path, beside, why=MISSING)
    except OSError as error:
        return Identity(path, beside, why=error.strerror or str(error))
    if b"-----BEGIN" not in content:
        public = _public(path)
        return Identity(path, public, why=ONLY_PUBLIC if public else "not a usable key: it holds none")
    if mode.st_uid == os.getuid() and mode.st_mode & OTHERS:
        return Identity(path, beside, why=f"others may read it, which ssh refuses too: chmod 600 {path}")
    return _private(path, content, beside)


def certificates(identity: Identity, named: Iterable[Path]) -> list[tuple[Path, PublicBlob]]:
    """Give the certificates that are for a key: those named, and the one beside it."""
    found = []
    for file in dict.fromkeys((*named, identity.path.with_name(f"{identity.path.name}-cert.pub"))):
        try:
            blob = PublicBlob.from_file(str(file))
        except (OSError, ValueError, IndexError, paramiko.SSHException):
            continue
        if (
            blob.key_type.endswith(SUFFIX)
            and identity.public is not None
            and certified(blob.key_blob) == identity.public
        ):
            found.append((file, blob))
    return found


def certified(blob: bytes) -> bytes | None:
    """Give the plain public key of a certificate."""
    try:
        fields = Fields(blob)
        kind = fields.string().removesuffix(SUFFIX.encode())
        fields.skip(1)  # nonce
        parts = [kind, *(fields.string() for _ in range(KEY_FIELDS[kind.decode()]))]
    except (KeyError, struct.error, UnicodeDecodeError):
        return None
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def _private(path: Path, content: bytes, beside: bytes | None) -> Identity:
    """Look into a private key's file: an OpenSSH one tells its public key also while it is locked."""
    if frame := _OPENSSH.search(content):
        try:
            fields = Fields(base64.b64decode(b"".join(frame[1].split())).removeprefix(_MAGIC))
            cipher = fields.string()
            fields.skip(2)  # how the passphrase becomes a key
            fields.number(4)
            public = fields.string()
            kind = Fields(public).string().decode()
        except (binascii.Error, struct.error, UnicodeDecodeError) as error:
            return Identity(path, beside, why=f"not a usable key: {error}")
        if kind.startswith(SECURITY_KEY):
            why = "a security key: it works through ssh-agent only, load it with ssh-add"
            return Identity(path, public, why=why)
        return Identity(path, public, locked=cipher != b"none", content=content)
    if b"ENCRYPTED" in content:
        return Identity(path, beside, locked=True, content=content)
    identity = Identity(path, beside, content=content)
    try:
        return Identity(path, identity.key().asbytes(), content=content)
    except ValueError as error:
        return Identity(path, beside, why=str(error))


def _load(content: bytes, password: bytes | None) -> Any:
    if _OPENSSH.search(content):
        return serialization.load_ssh_private_key(content, password)
    return serialization.load_pem_private_key(content, password)


def _public(path: Path) -> bytes | None:
    try:
        blob = PublicBlob.from_file(str(path))
    except (OSError, ValueError, IndexError, paramiko.SSHException):
        return None
    return certified(blob.key_blob) if blob.key_type.endswith(SUFFIX) else bytes(blob.key_blob)
