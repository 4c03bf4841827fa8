"""The link to this machine: commands through `sh`, as an SSH server would start them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from local.errors import LinkLost
from local.links.base import Answer, Command

if TYPE_CHECKING:
    from types import TracebackType

CHUNK = 1 << 16
KEPT = 1 << 13  # bytes of a stream's stderr that are kept
ENDING = 2.0  # seconds that a command may take from the end of its output to its own
PASSED_ON = ("PATH", "USER", "LOGNAME", "TMPDIR", "LD_LIBRARY_PATH")  # a session has little else

_unwaited: list[subprocess.Popen[bytes]] = []  # what was let go of, to be waited for when it has ended


class HereLink:
    """This machine as a host; `home` is what its commands take for their home folder."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = home or Path.home()

    def __repr__(self) -> str:
        return f"<link to this machine, home {self._home}>"

    def run(self, command: Command, *, stdin: bytes = b"", deadline: float = 30.0, limit: int = 64 * 2**20) -> Answer:
        """Run a command to its end."""
        until = time.monotonic() + deadline
        process = self._start(command, stdin, stderr=subprocess.PIPE)
        try:
            stdout, stderr = _collect(process, until, limit)
            code = process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            _let_go(process)
            raise LinkLost(f"no end within {deadline:g} s: {command.words[0]}") from error
        except LinkLost:
            _let_go(process)
            raise
        finally:
            _close_pipes(process)
        return Answer(code if code >= 0 else None, stdout, stderr)

    def stream(self, command: Command, *, stdin: bytes = b"") -> HereStream:
        """Start a command and read its output as it comes."""
        said = tempfile.TemporaryFile()  # noqa: SIM115 - the stream closes it
        return HereStream(self._start(command, stdin, stderr=said.fileno()), said)

    def reconnect(self) -> None:
        """Do nothing: this machine is always here."""

    def close(self) -> None:
        """Collect what has ended since it was let go of."""
        _reap()

    def _start(self, command: Command, stdin: bytes, *, stderr: int) -> subprocess.Popen[bytes]:
        _reap()
        session = {name: value for name in PASSED_ON if (value := os.environ.get(name)) is not None}
        with tempfile.TemporaryFile() as given:
            given.write(stdin)
            given.seek(0)
            return subprocess.Popen(
                ["/bin/sh", "-c", str(command)],
                cwd=self._home,
                env={**session, "HOME": str(self._home), "SHELL": "/bin/sh"},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )


class HereStream:
    """A local command whose output is read while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self._process = process
        self._said = said
        self._closed = False

    def read(self, timeout: float) -> bytes:
        """Give the next bytes, b"" at the end; raises LinkLost when none came in time."""
        output = self._process.stdout
        if self._closed or output is None:
            return b""
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise LinkLost(f"nothing came for {timeout:g} s")
        return os.read(output.fileno(), CHUNK)

    def ending(self) -> Answer:
        """Tell how the command ended: its code and the end of its stderr."""
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(ENDING)
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - KEPT))
        return Answer(code if code is not None and code >= 0 else None, b"", self._said.read())

    def close(self) -> None:
        """End reading: the command's next write fails."""
        if not self._closed:
            self._closed = True
            self._said.close()
            _close_pipes(self._process)
            _let_go(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _collect(process: subprocess.Popen[bytes], until: float, limit: int) -> tuple[bytes, bytes]:
    """Read both outputs to their ends; raises LinkLost at the deadline or the limit."""
    parts: dict[Any, list[bytes]] = {process.stdout: [], process.stderr: []}
    taken = 0
    with selectors.DefaultSelector() as selector:
        for output in parts:
            selector.register(output, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise LinkLost("the command did not end within its deadline")
            for key, _ in ready:
                part = os.read(key.fd, CHUNK)
                parts[key.fileobj].append(part)
                taken += len(part)
                if not part:
                    selector.unregister(key.fileobj)
            if taken > limit:
                raise LinkLost(f"the command wrote more than {limit} bytes")
    return b"".join(parts[process.stdout]), b"".join(parts[process.stderr])


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """Hang up as a lost session would: what left its session or ignores hang-ups goes on."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGHUP)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
        return
    _unwaited.append(process)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _reap() -> None:
    _unwaited[:] = [process for process in _unwaited if process.poll() is None]
