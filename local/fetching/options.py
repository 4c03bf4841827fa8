"""The options of `fetch`, understood; what cannot work is refused before any host is reached."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from local.errors import UsageError
from local.folders import at_home
from local.tasks.watching import duration
from remote import ranges

PATIENCE = 600.0
STREAMS, MOST_STREAMS = 4, 32
_NUMBER = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for; `spans` None means all samples."""

    samples: bool = False
    spans: tuple[range, ...] | None = None
    parallel: int = STREAMS
    patience: float = PATIENCE
    json: bool = False


def understood(
    *,
    samples: bool = False,
    indices: str | None = None,
    parallel: int | str = STREAMS,
    to: str | None = None,
    patience: str | None = None,
    json: bool = False,
    **_: object,
) -> Options:
    """Give the options; raises UsageError."""
    if to is not None and (not to or at_home(to).parts[0].startswith("~")):
        raise UsageError(
            f"names no folder: {to!r}", where="--to", remedy="Write its path: ./samples, ~/samples, /data/samples."
        )
    _can_be_made(Path("fetched") if to is None else at_home(to))
    if indices is not None and not samples:
        raise UsageError("--indices chooses samples, and none are asked for", remedy="Say --samples as well.")
    waiting = duration(patience, "--patience")
    spans = None if indices is None else _spans(indices)
    return Options(samples, spans, _streams(str(parallel)), PATIENCE if waiting is None else waiting, json)


def _can_be_made(folder: Path) -> None:
    """See that the folder on this laptop is one, or can be."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UsageError(f"{there} is no folder", where="--to", remedy="Name another folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{there} cannot be written to", where="--to", remedy="Name another folder.")


def _streams(told: str) -> int:
    found = int(told) if _NUMBER.fullmatch(told) else 0
    if not 1 <= found <= MOST_STREAMS:
        raise UsageError(
            f"expected a number from 1 to {MOST_STREAMS}, found {told[:40]}", where="--parallel",
            remedy="It is how many streams go to one host at once.",
        )  # fmt: skip
    return found


def _spans(told: str) -> tuple[range, ...]:
    try:
        spans = ranges.spans(told.replace(" ", ""))
    except ranges.RangeError as error:
        raise UsageError(str(error), where="--indices", remedy="Write them ascending, as 0-99,120.") from None
    if not spans:
        raise UsageError("names no samples", where="--indices", remedy="Write them ascending, as 0-99,120.")
    return spans
