"""The samples in hand: what an attempt has asked its engine for, noted while there is no answer.

An engine that ends meanwhile, and the attempt with it, leaves the note: from it the supervisor knows whom to suspect.
A note that is half there was never followed by a question, and counts as none. Only the kernel has to keep it: it is
not made durable against a crash of the whole host.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from remote import files, wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.paths import Run


@contextlib.contextmanager
def taken(run: Run, indices: Iterable[int]) -> Iterator[None]:
    """Note what is in hand for the time of the block; the note stays when the block raises."""
    with contextlib.suppress(OSError):  # a full disk: then nobody is suspected
        Path(run.hand).write_text(json.dumps({"samples": list(indices)}))
    yield
    drop(run)


def drop(run: Run) -> None:
    """Take the note away: nothing is in hand."""
    with contextlib.suppress(OSError):
        Path(run.hand).unlink(missing_ok=True)


def held(run: Run) -> tuple[int, ...]:
    """Give the samples that are in hand, none when no note can be read."""
    try:
        samples = wire.parse(files.read(run.hand))["samples"]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    sound = isinstance(samples, list) and all(type(index) is int and index >= 0 for index in samples)
    return tuple(samples) if sound else ()
