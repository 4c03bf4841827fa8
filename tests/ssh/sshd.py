"""A real OpenSSH server of our own on the loopback, unprivileged where we are, with keys made at its start."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.ssh.servers import Server, free_port, make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

READY = 15.0

CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
UseDNS no
SetEnv HOME={home}
{more}
"""


def program() -> str | None:
    """Give the installed sshd, if there is one; it insists on its absolute path."""
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/lib/ssh")


@contextlib.contextmanager
def running(folder: Path, *, more: str = "") -> Iterator[Server]:
    """Run an sshd whose files live in `folder`; `more` are further lines of its configuration."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    for name in ("host_key", "user_key"):
        if not (folder / name).exists():
            make_key(folder / name)
    shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
    process, port = _start(folder, home, more)
    try:
        yield Server(kind="sshd", port=port, folder=folder, home=home, pid=process.pid)
    finally:
        stop(process)


def sessions(server: Server) -> list[psutil.Process]:
    """Give the processes that serve the server's connections at this moment."""
    return psutil.Process(server.pid).children(recursive=False)


def _start(folder: Path, home: Path, more: str) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(5):
        port = free_port()
        (folder / "config").write_text(CONFIG.format(port=port, folder=folder, home=home, more=more))
        log = (folder / "log").open("ab")
        with log:
            said = log.tell()
            process = subprocess.Popen(
                [str(program()), "-D", "-e", "-f", str(folder / "config")], stdin=subprocess.DEVNULL, stderr=log
            )
        if _listens(process, folder / "log", said) and _ready(process, port):
            return process, port
    raise AssertionError(f"sshd does not start: {(folder / 'log').read_text()}")


def _listens(process: subprocess.Popen[bytes], log: Path, said: int) -> bool:
    """Wait until it says that it listens: on a port taken meanwhile, another server's banner would be heard."""
    until = time.monotonic() + READY
    while time.monotonic() < until and process.poll() is None:
        if b"Server listening on" in log.read_bytes()[said:]:
            return True
        time.sleep(0.01)  # between two looks only
    stop(process)
    return False


def _ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait for its banner; False when it has ended (the port was taken meanwhile)."""
    until = time.monotonic() + READY
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=READY) as sock:
            return sock.recv(4).startswith(b"SSH-")
        time.sleep(0.01)  # between two tries only: the banner is what is waited for
    stop(process)
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server, its sessions and what they still run."""
    family = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    for member in (process, *reversed(family)):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            member.terminate()
    _, left = psutil.wait_procs(family, timeout=5)
    for member in left:
        member.kill()
    process.wait(10)
