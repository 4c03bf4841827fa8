"""One attempt of a run: a process in a session of its own, whose words are the log and whose events are pumped."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import events, logfile, processes
from remote.engines.command import LineProgress
from remote.environment import job_environment
from remote.paths import ATTEMPT_ENV, EVENTS_ENV, RUN_ENV

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from remote.paths import Bundle, Run
    from remote.schema import Job

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KEPT_LOG = 2 << 20  # bytes of an attempt's log that are classified: its first half and its last
LINE_ENDS = re.compile(rb"[\r\n]")
_LIBC = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that nothing gets out of sight."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Attempt:
    """The process and what it says; `code` stands once it was reaped (128 + number when a signal ended it)."""

    def __init__(self, run: Run, job: Job, bundle: Bundle, number: int, secrets: Mapping[str, str]) -> None:
        self.number = number
        self.code: int | None = None
        self._run = run
        self._log_start = _size(run.log)
        self._events = events.Tail(run.attempt_events(number))
        self._lines = LineProgress.of(job.progress) if job.engine == "command" else None
        self._log = events.Tail(run.log, offset=self._log_start, ends=LINE_ENDS)
        self._log_seen = self._safe = self._log_start
        self._process = _start(run, job, _environment(run, job, bundle, number, secrets))
        self.pid = self._process.pid
        self.main = processes.read(self.pid)

    def reaped(self, status: int) -> None:
        """Take the wait status of the process."""
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code
        self._process.returncode = code

    def pump(self) -> Iterator[dict[str, Any]]:
        """Give what was told since the last call, in order."""
        for line in self._events.lines():
            if (event := events.parse(line)) is not None:
                yield event
        if self._lines is not None:
            for line in self._log.lines():
                if (event := self._lines.event(line)) is not None:
                    yield event

    def grew(self) -> bool:
        """Tell whether the log grew since the last call."""
        size = _size(self._run.log)
        grew, self._log_seen = size != self._log_seen, size
        return grew

    def all_well(self) -> None:
        """Note that samples were done: what the log said until the look before is not why it fails later."""
        self._safe = self._log_seen

    def log_text(self) -> str:
        """Give this attempt's part of the log since samples were done last, at most its two ends."""
        with Path(self._run.log).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            first = file.seek(max(self._safe, logfile.start(self._run)))
            if size - first <= KEPT_LOG:
                data = file.read()
            else:
                data = file.read(KEPT_LOG // 2)
                file.seek(size - KEPT_LOG // 2)
                data += b"\n" + file.read()
        return data.decode("utf-8", "replace")


def _environment(run: Run, job: Job, bundle: Bundle, number: int, secrets: Mapping[str, str]) -> dict[str, str]:
    folder = processes.mark(run)
    marks = {
        RUN_ENV: folder,
        EVENTS_ENV: f"{folder}/{run.attempt_events(number).name}",
        ATTEMPT_ENV: str(number),
    }
    return job_environment(job, bundle, secrets=secrets, marks=marks)


def _start(run: Run, job: Job, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the process: nothing of ours is inherited but the log; it gets SIGTERM when we die. Raises OSError."""
    words = list(job.command) if job.engine == "command" else [job.python, "-m", "remote", "attempt"]
    supervisor = os.getpid()

    def before_exec() -> None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != supervisor:  # we died before the wish was in place
            os._exit(128 + signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    log = os.open(run.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=run.root,
            start_new_session=True,
            preexec_fn=before_exec,  # noqa: PLW1509 - this process has one thread
        )
    finally:
        os.close(log)


def _size(path: os.PathLike[str]) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
