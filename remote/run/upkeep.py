"""What the supervisor sees to beside the attempt: a bounded log, room to write, and a note of the vital signs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from remote.run import logfile, room
from remote.run.vitals import Recorder

if TYPE_CHECKING:
    from remote.paths import Run
    from remote.run.ledger import Ledger
    from remote.schema import Job

FULL_PATIENCE = 10.0  # seconds that the run's folder may take nothing before the run is ended for it
TRIM_EVERY = 5.0  # seconds between two looks at the length of the log


class Upkeep:
    """Looks after one run's folder."""

    def __init__(self, run: Run, job: Job, ledger: Ledger, apart: set[int] | None = None) -> None:
        self._run = run
        self._job = job
        self._ledger = ledger
        self._trims = True  # until the file system says that it cannot
        self._trimmed = 0.0
        self.vitals = Recorder(run, job, ledger, set() if apart is None else apart)

    def out_of_room(self) -> str | None:
        """Say that the run's folder has taken nothing for a while: how the run goes on then, nobody can know."""
        since = self._ledger.refused
        return None if since is None or time.monotonic() - since < FULL_PATIENCE else self.no_room()

    def no_room(self) -> str | None:
        """Say which file system of the run is full, None when all have room."""
        if self._ledger.refused is not None:
            return room.full([self._run.root]) or f"nothing can be written in {self._run.root} any more"
        return room.full([self._job.output, self._run.root])

    def trim(self) -> None:
        """Let go of the log's old part, now and then."""
        if not self._trims or time.monotonic() - self._trimmed < TRIM_EVERY:
            return
        self._trimmed = time.monotonic()
        try:
            went = logfile.trim(self._run, self._job.keep_log_mb << 20)
        except OSError as error:
            if error.errno not in room.FULL:
                self._trims = False
                self._ledger.tell("log-kept-whole", cause=f"the file system makes no holes: {error.strerror}")
            return
        if went is not None:
            self._ledger.tell("log-trimmed", **{"from": went[0], "to": went[1]})
