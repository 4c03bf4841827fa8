"""One attempt of a run: a process in a session of its own, whose words are the log and whose events are pumped."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import bounded, bytecode, files, masks
from remote.engines.command import LineProgress
from remote.environment import job_environment
from remote.host import processes, sockets
from remote.paths import ATTEMPT_ENV, EVENTS_ENV, RUN_ENV
from remote.run import events, logfile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from remote.paths import Bundle, Run
    from remote.schema import Job

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KEPT_LOG = 2 << 20  # bytes of an attempt's log that are classified: its first half and its last
MATCHING = 0.5  # seconds of computing that the job's pattern may need for one line
QUOTED = 200  # bytes of such a line that are told
OVERRUNS = 3  # so many lines may take it longer before it is given up
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
        self._overruns = 0
        self._lines = LineProgress.of(job.progress) if job.engine == "command" else None
        self._log = events.Tail(run.log, offset=self._log_start, ends=LINE_ENDS)
        self._log_seen = self._safe = self._log_start
        bytecode.drop_damaged(job.workdir)
        environment = _environment(run, job, bundle, number, secrets)
        sockets.note(run, sockets.make(environment))
        try:
            self._process = _start(run, job, environment)
        except OSError:
            sockets.sweep(run)
            raise
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
                if (event := self._progress(line)) is not None:
                    yield event

    @property
    def blind(self) -> bool:
        """Tell whether nothing can be known of the progress any more: the job's pattern had to be given up."""
        return self._overruns >= OVERRUNS

    def _progress(self, line: bytes) -> dict[str, Any] | None:
        """Give the event of a line of log; a pattern that holds us up is given up, and told so."""
        if self._lines is None or self.blind:
            return None
        try:
            with bounded.within(MATCHING):
                return self._lines.event(line)
        except bounded.Overrun:
            self._overruns += 1
        if self._overruns < OVERRUNS:
            return None
        said = line[:QUOTED].decode("utf-8", "replace")
        return {"event": "pattern-given-up", "pattern": self._lines.pattern.pattern, "line": said}

    def grew(self) -> bool:
        """Tell whether the log grew since the last call."""
        size = _size(self._run.log)
        grew, self._log_seen = size != self._log_seen, size
        return grew

    def all_well(self) -> None:
        """Note that samples were done: what the log said until the look before is not why it fails later."""
        self._safe = self._log_seen

    def log_text(self, secrets: Collection[str] = ()) -> str:
        """Give this attempt's part of the log since samples were done last, at most its two ends, secrets masked."""
        with files.opened(self._run.log) as file:
            size = file.seek(0, os.SEEK_END)
            first = max(self._safe, logfile.start(self._run))
            file.seek(max(0, first - 1))
            torn = first > 0 and file.read(1) != b"\n"
            if size - first <= KEPT_LOG:
                pieces = [file.read()]
            else:
                pieces = [file.read(KEPT_LOG // 2)]
                file.seek(size - KEPT_LOG // 2)
                pieces.append(file.read())
        ends = [*[True] * (len(pieces) - 1), not pieces[-1].endswith(b"\n")]
        starts = [torn, *[True] * (len(pieces) - 1)]
        shown = [
            masks.mask_bytes(piece, secrets, start=start, end=end)
            for piece, start, end in zip(pieces, starts, ends, strict=True)
        ]
        return b"\n".join(shown).decode("utf-8", "replace")


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
