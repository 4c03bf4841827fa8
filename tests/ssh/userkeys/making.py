"""What the tests of keys make: keys of every kind, certificates, and who lets them in."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from local.links.base import Command

if TYPE_CHECKING:
    from tests.ssh.servers import Server

TRUE = Command(("true",))
ROOT = Path(__file__).parents[3]
CERTIFIED = "TrustedUserCAKeys {folder}/user_ca.pub\n"
KINDS = {
    "ed25519": ("-t", "ed25519"),
    "rsa": ("-t", "rsa", "-b", "2048"),
    "ecdsa": ("-t", "ecdsa"),
    "ecdsa-521": ("-t", "ecdsa", "-b", "521"),
    "rsa-pem": ("-t", "rsa", "-b", "2048", "-m", "PEM"),
    "ecdsa-pem": ("-t", "ecdsa", "-m", "PEM"),
    "rsa-pkcs8": ("-t", "rsa", "-b", "2048", "-m", "PKCS8"),
    "ecdsa-pkcs8": ("-t", "ecdsa", "-m", "PKCS8"),
}


def allow(server: Server, *public: Path) -> None:
    """Let further keys in."""
    with (server.folder / "authorized_keys").open("a") as file:
        file.writelines(f"{path}.pub" and Path(f"{path}.pub").read_text() for path in public)


def certify(server: Server, key: Path, *options: str) -> Path:
    words = ["ssh-keygen", "-q", "-s", server.folder / "user_ca", "-I", "id", "-n", server.user, *options, f"{key}.pub"]
    subprocess.run(words, check=True, capture_output=True)
    return key.with_name(f"{key.name}-cert.pub")
