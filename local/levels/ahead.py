"""The examination that the next gate will most likely want, made while the host still answers.

After a gate that did not pass, the laptop knows the sources and the patched files that it was about. If they are what
the host has now, the static level finds its work done; if not, it does its own. A guess costs time of a processor that
had nothing to do, and decides nothing.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from local import surface
from local.levels import static
from remote.engines.defaults import gate_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from local.memory import Hint
    from remote.schema import Job


@contextlib.contextmanager
def examining(host: str, job: Job, hint: Hint | None) -> Iterator[None]:
    """Examine beside what is done in the block; leaving it waits, for an examination has files and a process."""
    if hint is None or hint.passed or not gate_of(job).modules:
        yield
        return
    thread = threading.Thread(target=guess, args=(host, job, hint), name="ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def guess(host: str, job: Job, hint: Hint) -> None:
    """Examine what the last gate was about."""
    with contextlib.suppress(Exception):  # whatever it is, the level itself will meet it, and tell
        static.decided(
            job,
            surface.remembered(host, job.name),
            hint.patched,
            reviewed=hint.reviewed,
            architectures=hint.architectures,
        )
