"""What a pulse and the supervisor read of the machine: its cards and the room for the output, each asked of a child."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from remote.host.asking import Question
from remote.paths import Workdir
from remote.schema import DiskLeft, GpuReading, GpuReadings

if TYPE_CHECKING:
    from remote.host.asking import Heard

FIELDS = ("index", "name", "utilization.gpu", "memory.used", "memory.total", "temperature.gpu", "mig.mode.current")
MIB = 1024 * 1024
LONGEST = 300  # characters of what a program says in place of rows
# The file system of a folder that need not be there yet. In a child, because a dead network mount holds whoever looks.
ROOM = """p=$1
while [ ! -d "$p" ] && [ "$p" != / ]; do p=${p%/*}; p=${p:-/}; done
exec stat -f -c '%a %b %S' -- "$p"
"""


def gpu_question(workdir: str, *, program: str = "nvidia-smi") -> Question:
    """Give the question for the cards; who asks in the same workdir shares it."""
    words = [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    return Question(_folder(workdir), "gpus", words)


def disk_question(workdir: str, path: str) -> Question:
    """Give the question for the room that a path's file system has."""
    name = f"disk-{hashlib.sha256(path.encode()).hexdigest()[:12]}"
    return Question(_folder(workdir), name, ["sh", "-c", ROOM, "room", path])


def gpus(heard: Heard, *, now: float | None = None) -> GpuReadings:
    """Read what nvidia-smi answered."""
    now = time.time() if now is None else now
    pending = None if heard.pending is None else max(0.0, now - heard.pending)
    if heard.text is None:
        return GpuReadings(error=heard.error or _silent(pending), pending=pending)
    found, rest = [], []
    for line in filter(None, map(str.strip, heard.text.splitlines())):
        reading = _reading(line)
        if reading is None:
            rest.append(line)
        else:
            found.append(reading)
    said = " ".join(rest)[:LONGEST]
    error = f"failed: {said}" if said else None if found else "hung: nvidia-smi was ended without an answer"
    return GpuReadings(gpus=tuple(found), error=error, age=max(0.0, now - heard.at), pending=pending)


def disk(path: str, heard: Heard, *, now: float | None = None) -> DiskLeft:
    """Read what `stat -f` answered."""
    now = time.time() if now is None else now
    pending = None if heard.pending is None else max(0.0, now - heard.pending)
    words = (heard.text or "").split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):  # noqa: PLR2004 - free, all, size of a block
        return DiskLeft(path=path, pending=pending)
    free, blocks, size = map(int, words)
    return DiskLeft(path=path, free=free * size, total=blocks * size, age=max(0.0, now - heard.at), pending=pending)


def _folder(workdir: str) -> Path:
    return Path(Workdir(PurePosixPath(workdir)).cache) / "asked"


def _silent(pending: float | None) -> str | None:
    return None if pending is None else f"no answer from nvidia-smi for {pending:.0f} s"


def _reading(line: str) -> GpuReading | None:
    """Read one row, or None: a name may hold anything, the fields around it may not."""
    index, _, rest = line.partition(", ")
    parts = rest.rsplit(", ", len(FIELDS) - 2)
    if not index.isdecimal() or len(parts) != len(FIELDS) - 1:
        return None
    name, busy, used, total, temperature, mig = parts
    used_bytes, total_bytes = _number(used), _number(total)
    return GpuReading(
        index=int(index),
        name=name,
        utilisation=_number(busy),
        memory_used=None if used_bytes is None else used_bytes * MIB,
        memory_total=None if total_bytes is None else total_bytes * MIB,
        temperature=_number(temperature),
        mig=mig == "Enabled",
        trouble=_trouble(parts[1:]),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() else None


def _trouble(values: list[str]) -> str:
    """Tell the failure that stands in place of values of a card that does not answer."""
    for value in values:
        word = value.strip("[]")
        if value.startswith("ERR") or (value.startswith("[") and word not in ("N/A", "Not Supported")):
            return word
    return ""
