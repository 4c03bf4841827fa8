"""The last check of a run's outputs, kept in its folder for whoever tells of the run later."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from remote import files, wire
from remote.run import runs
from remote.schema import Verified

if TYPE_CHECKING:
    from remote.paths import Run
    from remote.schema import Job, VerifyAnswer


def keep(job: Job, answer: VerifyAnswer) -> None:
    """Keep what was found of an output folder with the newest run that wrote to it; a full disk keeps nothing."""
    for run in runs.folders(job.workdir):
        request = runs.look(run).request
        if request is not None and os.path.realpath(request.job.output) == os.path.realpath(job.output):
            with contextlib.suppress(OSError):
                files.replace(run.verified, wire.dumps(Verified(time=time.time(), answer=answer)).encode())
            return


def last(run: Run) -> Verified | None:
    """Give what was kept, None where nothing is that can be understood."""
    with contextlib.suppress(OSError, wire.WireError, ValueError):
        return wire.loads(Verified, files.read(run.verified), "verified.json")
    return None
