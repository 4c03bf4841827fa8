"""The vital signs of a run, noted by its supervisor in `vitals.jsonl`: never waited for, never a reason to end a run.

The cards and the room for the output are asked of children (remote/host/asking.py) that the supervisor neither waits
for nor counts among what the run has started: `apart` holds their sessions. A note is made when both have answered, or
after PATIENCE with what there is.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from remote import files, wire
from remote.host import readings
from remote.schema import Vitals

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from remote.host.asking import Question
    from remote.paths import Run
    from remote.run.ledger import Ledger
    from remote.schema import Job

EVERY = 30.0  # seconds between two notes
PATIENCE = 10.0  # seconds that an answer may take until it is noted that there was none
LARGEST = 4 << 20  # bytes; 8 cards give 1.3 KB a note


class Recorder:
    """Notes how a run, its cards and its disk stand; `apart` is kept up to date with the sessions of who is asked."""

    def __init__(
        self, run: Run, job: Job, ledger: Ledger, apart: set[int], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = Path(run.vitals)
        self._ledger = ledger
        self._apart = apart
        self._clock = clock
        self._gpus = readings.gpu_question(job.workdir) if job.device == "cuda" else None
        self._output = job.output
        self._disk = readings.disk_question(job.workdir, job.output)
        self._sessions: dict[int, Question] = {}
        self._next = clock()
        self._asked: float | None = None

    def tick(self) -> None:
        """Ask when it is time; note when there are answers. Returns at once; what the disk refuses is left out."""
        now = self._clock()
        if self._asked is None and now >= self._next:
            self._asked, self._next = now, now + EVERY
            self._ask()
        elif self._asked is not None and (self._answered() or now - self._asked > PATIENCE):
            self._asked = None
            self._note()

    def _ask(self) -> None:
        for question in filter(None, (self._gpus, self._disk)):
            if (pid := question.ask(fresh=EVERY / 2)) is not None:
                self._sessions[pid] = question
                self._apart.add(pid)

    def _answered(self) -> bool:
        """Tell whether all have answered; whose question is idle, of their session nobody lives any more."""
        for pid, question in list(self._sessions.items()):
            if question.idle():
                del self._sessions[pid]
                self._apart.discard(pid)
        return not self._sessions

    def _note(self) -> None:
        state = self._ledger.state
        cards = readings.gpus(self._gpus.heard()) if self._gpus is not None else None
        told = cards is not None and cards.age is not None and cards.age <= EVERY
        room = readings.disk(self._output, self._disk.heard())
        line = Vitals(
            time=round(time.time(), 3),
            attempt=state.attempt,
            phase=state.phase,
            samples=state.samples.done,
            failed=state.samples.failed,
            tokens=state.tokens,
            disk_free=room.free if room.age is not None and room.age <= EVERY else None,
            gpus=cards.gpus if cards is not None and told else (),
            gpu_error=None if cards is None else cards.error if told else cards.error or "hung: no answer in time",
        )
        try:
            files.append_line(self._file, wire.dumps(line).encode(), durable=False)
            if self._file.stat().st_size > LARGEST:
                thin(self._file)
        except OSError:
            return  # a full disk is for others to tell


def thin(file: str | os.PathLike[str]) -> None:
    """Drop every second line, the last one not: the file spans the same time in half the room."""
    lines = Path(file).read_bytes().splitlines(keepends=True)
    kept = lines[::-1][::2][::-1]
    files.replace(file, b"".join(kept))
