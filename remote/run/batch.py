"""The number of samples in a batch: the job's, until memory runs out; then half, remembered in the run's folder."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from remote import files, wire

if TYPE_CHECKING:
    from remote.paths import Run
    from remote.schema import Job

CAUSES = ("gpu-out-of-memory", "host-out-of-memory")  # of failures that a smaller batch may avoid
_TEXT = re.compile(r"OutOfMemoryError|(?:CUDA|HIP) out of memory|MemoryError|can't allocate memory")


def size(run: Run, job: Job) -> int:
    """Give the number of samples that a batch of this run may have now."""
    own = max(1, job.batch_size)
    try:
        found = wire.parse(files.read(run.batch))["size"]
    except (OSError, ValueError, KeyError, TypeError):
        return own
    return min(own, found) if type(found) is int and found > 0 else own


def shrink(run: Run, to: int) -> None:
    """Remember a smaller number; raises OSError."""
    files.replace(run.batch, json.dumps({"size": max(1, to)}).encode())


def ran_out(error: BaseException | None) -> bool:
    """Tell whether an exception, or one that led to it, says that memory ran out."""
    while error is not None:
        if isinstance(error, MemoryError) or _TEXT.search(f"{type(error).__name__}: {error}"):
            return True
        error = error.__cause__ or error.__context__
    return False
