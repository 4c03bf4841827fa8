"""What a test knows of an SSH server, whichever it is."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import socket
import subprocess
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from local.links.settings import SshSettings
from local.links.ssh import SshLink, open_link
from tests import leaks

if TYPE_CHECKING:
    from pathlib import Path

needs_openssh = pytest.mark.skipif(
    not (shutil.which("ssh") and shutil.which("ssh-keygen")), reason="the OpenSSH client is not installed"
)
USER = pwd.getpwuid(os.geteuid()).pw_name


def make_key(path: Path, kind: str = "ed25519") -> Path:
    """Make a key pair without passphrase."""
    if shutil.which("ssh-keygen") is None:
        made = asyncssh.generate_private_key({"ed25519": "ssh-ed25519", "ecdsa": "ecdsa-sha2-nistp256"}[kind])
        path.touch(0o600)
        made.write_private_key(str(path))
        made.write_public_key(f"{path}.pub")
        return path
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "test", "-f", path], check=True)
    return path


def free_port() -> int:
    """Give a port of the loopback on which nothing listens just now: for who listens on it, and can try another."""
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@functools.cache
def dead_port(number: int = 0) -> int:
    """Give a port of the loopback that nobody can listen on while this process lives: it is taken, and stays silent."""
    del number  # as many as there are numbers
    before = leaks.things()
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    atexit.register(sock.close)
    leaks.owned.update(leaks.things() - before)
    port: int = sock.getsockname()[1]
    return port


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running SSH server; `folder` holds its keys, `home` is the home folder that its commands see."""

    kind: str
    port: int
    folder: Path
    home: Path
    pid: int | None = None
    user: str = USER

    @property
    def identity(self) -> Path:
        return self.folder / "user_key"

    @property
    def host_key(self) -> Path:
        return self.folder / "host_key"

    @property
    def pins(self) -> Path:
        """The pin file that links to this server use."""
        return self.folder / "pins"

    def settings(self, **changes: Any) -> SshSettings:
        given = {
            "name": self.kind, "address": "127.0.0.1", "port": self.port, "user": self.user,
            "identity_file": str(self.identity), "connect_timeout": 5.0, "banner_timeout": 10.0, "auth_timeout": 10.0,
        }  # fmt: skip
        return SshSettings(**{**given, **changes})

    def link(self, *, pin_file: Path | None = None, **changes: Any) -> SshLink:
        """Give a link that knows nothing of the developer's own ssh_config and known_hosts."""
        return open_link(self.settings(**changes), ssh_config="none", pin_file=pin_file or self.pins)
