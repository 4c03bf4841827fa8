"""Keys, agents and terminals for the tests of who is let in."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


@contextlib.contextmanager
def agent(sock: Path) -> Iterator[Path]:
    """Run a real ssh-agent at a socket."""
    with subprocess.Popen(["ssh-agent", "-D", "-a", sock], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline()  # it tells its socket once that is there
        try:
            yield sock
        finally:
            running.terminate()


def add(sock: Path, *keys: Path) -> None:
    """Load keys (with the certificates beside them) into an agent."""
    subprocess.run(["ssh-add", "-q", *keys], check=True, env=os.environ | {"SSH_AUTH_SOCK": str(sock)})


def key(path: Path, *options: str, passphrase: str = "") -> Path:
    """Make a key pair with ssh-keygen's own options."""
    subprocess.run(["ssh-keygen", "-q", *options, "-N", passphrase, "-C", path.name, "-f", path], check=True)
    return path


def fingerprint(path: Path) -> str:
    """Give a public key's fingerprint as ssh-keygen tells it."""
    told = subprocess.run(["ssh-keygen", "-l", "-f", f"{path}.pub"], check=True, capture_output=True, text=True).stdout
    return told.split()[1]


def at_a_terminal(
    words: Sequence[str], answers: Sequence[str], *, environment: Mapping[str, str], question: str, limit: float = 60.0
) -> tuple[int, str]:
    """Run a program at a terminal of its own, answer each time it asks; gives its exit code and all that was shown."""
    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - the child
        os.execve(words[0], list(words), dict(environment))  # noqa: S606 - no shell is wanted
    shown, waiting, until = b"", list(answers), time.monotonic() + limit
    asked = 0
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                data = os.read(terminal, 4096)
            except OSError:  # Linux' way to say that the other side is closed
                break
            if not data:
                break
            shown += data
            while waiting and shown.count(question.encode()) > asked:
                asked += 1
                os.write(terminal, waiting.pop(0).encode() + b"\n")
    finally:
        os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode("utf-8", "replace")
