"""Whether a worker's answers fit into shared memory: they go through a ring there, and what finds no room dies. Pure.

vLLM's ring has ten places of 24 MiB, taken in turn; a larger answer goes through a socket. A place takes up memory once
something was in it, so a short rehearsal stays below what a run fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from remote.gate.estimate import SAMPLE_OVERHEAD, TOKEN_OVERHEAD, human
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.gate.estimate import Output

PLACE = 24 << 20
FILLED = 2  # places that states come to at least: a call of one step has five answers, one of which is the states
FOLDER = "/dev/shm"  # noqa: S108 - the place itself


def findings(planned: Output, batch: int, free: int) -> Iterator[Finding]:
    """Give the finding about answers that fill more of shared memory than is free, for batches of this many samples."""
    answer = of_batch(planned, batch)
    full = max(planned.samples // max(batch, 1), 1)  # the last batch may be small
    needed = answer * min(full, FILLED)
    if answer <= PLACE and needed > free:
        yield Finding(
            rule="answers-too-large",
            file=FOLDER,
            message=f"the answer for a batch of {batch} samples takes about {human(answer)}, and a run keeps "
            f"{human(needed)} of them in shared memory, which has {human(free)} free (`df -h {FOLDER}`): its worker "
            "would die of a bus error, after the load. Give the container `--ipc=host` or `--shm-size=1g`, or remove "
            f"what was left behind there (`ls -la {FOLDER}`).",
        )


def of_batch(planned: Output, batch: int) -> int:
    """Give the bytes of states that a batch of the usual samples has."""
    if not planned.samples:
        return 0
    states = planned.size - planned.samples * SAMPLE_OVERHEAD - planned.tokens * TOKEN_OVERHEAD
    return states * min(batch, planned.samples) // planned.samples
