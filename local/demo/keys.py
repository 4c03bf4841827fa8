"""The demo's keys: made once, the server's pinned, ours let in; written where OpenSSH and the tool both read them."""

from __future__ import annotations

import base64
import getpass
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from local.demo.place import ALIAS, write
from local.links import hostkeys

if TYPE_CHECKING:
    from pathlib import Path

    from local.demo.place import Place


def prepare(place: Place, port: int) -> None:
    """Make what is missing and write how to reach the server on this port."""
    host, user = _public(place.host_key), _public(place.user_key)
    write(place.authorized_keys, f"{user}\n")
    write(place.known_hosts, f"{ALIAS} {host}\n")
    write(place.ssh_config, _config(place, port))
    _pin(port, host)


def _pin(port: int, host: str) -> None:
    """Pin the server's key also where the tool looks without an OpenSSH client to read ssh_config for it."""
    kind, blob = host.split()[:2]
    hostkeys.pin(hostkeys.pins(), f"[127.0.0.1]:{port}", hostkeys.Key(kind, base64.b64decode(blob)))


def _public(private: Path) -> str:
    """Give a key's public line; makes the key where there is none."""
    if not private.exists():
        made = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        write(private, made)
    key = serialization.load_ssh_private_key(private.read_bytes(), password=None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def _config(place: Place, port: int) -> str:
    return f"""# Written by `fab demo.up`. By hand: ssh -F {place.ssh_config} {ALIAS}
Host {ALIAS}
    HostName 127.0.0.1
    Port {port}
    User {getpass.getuser()}
    IdentityFile "{place.user_key}"
    IdentitiesOnly yes
    HostKeyAlias {ALIAS}
    UserKnownHostsFile "{place.known_hosts}"
    StrictHostKeyChecking yes
"""
