"""The loopback host: `up` starts its SSH server unless it runs, `down` ends it; both know it by pid and start time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from local.demo import keys, sshd
from local.demo.place import ALIAS, write
from local.errors import PrudentError, Unreachable
from local.links.base import Command
from local.links.settings import SshSettings
from local.links.ssh import open_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.demo.place import Place

READY = 20.0  # seconds until the server must answer
ENDED = 10.0
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """The running server: `kind` is sshd or embedded; pid and start time together name one process."""

    kind: str
    port: int
    pid: int
    started: str


def running(place: Place) -> Server | None:
    """Give the server that runs, None when there is none."""
    server = _remembered(place)
    return server if server and _start_of(server.pid) == server.started and _answers(server.port) else None


def up(place: Place, *, embedded: bool = False) -> tuple[Server, bool]:
    """Start the host unless it runs; the flag says whether it was started now."""
    with _alone(place):
        if server := running(place):
            keys.prepare(place, server.port)
            return server, False
        kinds = ["embedded"] if embedded or sshd.find() is None else ["sshd", "embedded"]
        for kind in kinds:
            server = _start(place, _port(place), kind)
            if trouble := _trouble(place):
                _end(server)
                continue
            return server, True
    raise Unreachable(
        f"no SSH server can be started on this machine: {trouble}", remedy=f"What it said: {place.log}", where="demo"
    )


def down(place: Place) -> Server | None:
    """End the host; gives what was ended. Its keys and its port stay for the next `up`."""
    with _alone(place):
        server = _remembered(place)
        if server is None or _start_of(server.pid) != server.started:
            return None
        _end(server)
        return server


@contextlib.contextmanager
def _alone(place: Place) -> Iterator[None]:
    with place.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(place: Place, port: int, kind: str) -> Server:
    keys.prepare(place, port)
    command = sshd.words(place, port, embedded=kind == "embedded")
    # A shell in between: the server is init's child at once, and nobody here has to wait for its end.
    said = subprocess.run(
        ["sh", "-c", '"$@" </dev/null >>"$0" 2>&1 & echo $!', str(place.log), *command],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
        check=True,
    )
    pid = int(said.stdout)
    server = Server(kind=kind, port=port, pid=pid, started=_start_of(pid) or "")
    write(place.account, json.dumps(asdict(server)))
    until = time.monotonic() + READY
    while _start_of(pid) == server.started and time.monotonic() < until and not _answers(port):
        time.sleep(0.05)
    return server


def _trouble(place: Place) -> str:
    """Log in and run a command; gives what is wrong, nothing when all is well."""
    settings = SshSettings(name="demo", address=ALIAS, alias=ALIAS, ssh_config=str(place.ssh_config))
    link = open_link(settings, ssh_config=settings.ssh_config)
    try:
        answer = link.run(Command(("true",)), deadline=READY)
    except PrudentError as error:
        return error.message
    finally:
        link.close()
    return "" if answer.code == 0 else answer.stderr.decode("utf-8", "replace") or f"`true` gave {answer.code}"


def _end(server: Server) -> None:
    """Ask the process to end, then insist; never another one that got its pid."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if _start_of(server.pid) != server.started:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, number)
        until = time.monotonic() + ENDED
        while _start_of(server.pid) == server.started and time.monotonic() < until:
            time.sleep(0.02)


def _remembered(place: Place) -> Server | None:
    try:
        return Server(**json.loads(place.account.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _port(place: Place) -> int:
    """Give the port of last time when it is still free, else a free one."""
    before = _remembered(place)
    for wanted in ([before.port] if before else []) + [0]:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", wanted))
            return int(probe.getsockname()[1])
    raise Unreachable("no free port on 127.0.0.1", where="demo", remedy="End what holds them all.")


def _answers(port: int) -> bool:
    """Say whether an SSH server greets on this port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as link:
        return link.recv(4) == b"SSH-"
    return False


def _start_of(pid: int) -> str | None:
    """Give a process's start time as the system tells it: None for none, and for one that only waits to be reaped."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    if Path("/proc/self/stat").exists():
        return None
    said = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return said.stdout.strip() or None
