"""Who holds GPU memory, by pid: asked after a run, because a driver in trouble may keep what a dead process had.

In a container the driver tells no processes, or tells them by the machine's pids, which are not those of ours: there
nothing is known.
"""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from remote.host import commands

if TYPE_CHECKING:
    from collections.abc import Collection

PROGRAM = "nvidia-smi"
LIMIT = 5.0  # seconds for one answer
PATIENCE = 5.0  # seconds that the driver may take to let go
PAUSE = 0.5
_ASK = ("--query-compute-apps=pid", "--format=csv,noheader,nounits")


def held(pids: Collection[int], *, patience: float = PATIENCE) -> tuple[int, ...]:
    """Give those of the processes that still hold GPU memory after a while; nobody where there is no GPU to ask."""
    if not pids or shutil.which(PROGRAM) is None:
        return ()
    until = time.monotonic() + patience
    while (found := parse(_asked()) & set(pids)) and time.monotonic() < until:
        time.sleep(PAUSE)
    return tuple(sorted(found))


def parse(text: str) -> set[int]:
    """Read the pids; whatever is no number (a warning, `[N/A]`) is passed over."""
    return {int(line) for line in map(str.strip, text.splitlines()) if line.isascii() and line.isdigit()}


def _asked() -> str:
    """Give what is said of the cards that answer: with one off the bus the exit code is none of success."""
    return commands.run([PROGRAM, *_ASK], limit=LIMIT).out
