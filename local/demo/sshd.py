"""How the demo's SSH server is started: an OpenSSH sshd of our own where one is installed, else the embedded one."""

from __future__ import annotations

import getpass
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from local.demo.place import write

if TYPE_CHECKING:
    from local.demo.place import Place

SEARCHED = "/usr/sbin:/usr/local/sbin:/sbin:/opt/homebrew/sbin"


def find() -> str | None:
    """Give the absolute path of an sshd; it re-executes itself and asks to be called by one."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:{SEARCHED}")


def words(place: Place, port: int, *, embedded: bool) -> list[str]:
    """Give the command that serves on this port, in the foreground; writes what it reads."""
    sshd = find()
    if embedded or sshd is None:
        return [sys.executable, "-m", "local.demo.server", str(place.root), str(port)]
    write(place.sshd_config, _config(place, port))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)  # its privilege separation folder
    return [sshd, "-D", "-f", str(place.sshd_config), "-E", str(place.log)]


def _config(place: Place, port: int) -> str:
    return f"""# Written by `fab demo.up`.
Port {port}
ListenAddress 127.0.0.1
HostKey "{place.host_key}"
PidFile none
AuthorizedKeysFile "{place.authorized_keys}"
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowUsers {getpass.getuser()}
PrintMotd no
Subsystem sftp internal-sftp
"""
