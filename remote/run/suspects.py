"""Samples that end the engine: suspected, tried alone at the end, given up. What is decided is pure.

Nobody can say which sample of a batch has ended the engine, nor whether it was a sample at all. So all that were in
hand are suspected; the next attempt goes on with the others, which shows whether engine and host are well, and takes
the suspected ones last and alone. One that ends the engine alone is given up then: it has ended it twice. Where nothing
is done between one end and the next, it is not the samples.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remote import files, wire
from remote.run import batch, hand
from remote.run.retries import NODE_FATAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from remote.failures import Failure
    from remote.paths import Run

# Attempts in a row that may end with samples in hand and none done between: before the engine has done any sample in
# this run, and after.
UNPROVEN, PROVEN = 2, 4
FROM_OUTSIDE = ("sigkill", "sigterm", "sigint", "sighup", "temporary")  # somebody ended the attempt, no sample did
CONTAINED = 300  # characters of a failure's line that a sample's cause quotes


@dataclass(frozen=True, slots=True)
class Suspects:
    """`samples` were in hand when an attempt failed; `failed` tells of each that was given up why."""

    samples: frozenset[int] = frozenset()
    failed: Mapping[int, str] = field(default_factory=dict)

    def after(self, hand: Sequence[int], why: str) -> Suspects:
        """Give the suspects after one more attempt that ended with these samples in hand."""
        if len(hand) == 1 and hand[0] in self.samples:
            return Suspects(self.samples - {hand[0]}, {**self.failed, hand[0]: why})
        return Suspects(self.samples | set(hand), self.failed)


def read(run: Run) -> Suspects:
    """Give the suspects of a run; what cannot be read suspects nobody."""
    try:
        told = wire.parse(files.read(run.suspects))
        return Suspects(
            frozenset(map(int, told["samples"])), {int(key): str(why) for key, why in told["failed"].items()}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return Suspects()


def write(run: Run, suspects: Suspects) -> None:
    """Keep the suspects; raises OSError."""
    told = {"samples": sorted(suspects.samples), "failed": {str(index): why for index, why in suspects.failed.items()}}
    files.replace(run.suspects, json.dumps(told, ensure_ascii=False).encode())


def inherit(run: Run, lost: Run) -> None:
    """Suspect in a new run what a lost one on the same output had in hand or suspected: it may have taken the host."""
    before = read(lost)
    if found := before.samples | before.failed.keys() | set(hand.held(lost)):
        with contextlib.suppress(OSError):
            write(run, Suspects(found))


class Inquiry:
    """What the supervisor makes of attempts that end with samples in hand."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._in_a_row = 0
        self._proven = False

    def judge(self, failure: Failure, hand: Sequence[int], *, progressed: bool) -> Failure | None:
        """Give the failure as one that a sample has made, None where it is none; `progressed`: samples were done."""
        if progressed:
            self._in_a_row, self._proven = 0, True
        if not hand or not self._may_be_a_samples(failure):
            return None
        self._in_a_row += 1
        if self._in_a_row > (PROVEN if self._proven else UNPROVEN):
            return _no_samples(failure, self._in_a_row) if self._proven else None
        before = read(self._run)
        suspects = before.after(hand, _why(failure))
        try:
            write(self._run, suspects)
        except OSError:
            return None
        found = suspects.failed.keys() - before.failed.keys()
        return _a_samples(failure, hand, given_up=bool(found)) if found or self._proven else None

    def _may_be_a_samples(self, failure: Failure) -> bool:
        """Memory that runs out on the first sample of all is a matter of settings, not of the sample."""
        if failure.then == NODE_FATAL or failure.cause in FROM_OUTSIDE:
            return False
        return failure.kind in ("transient", "unknown") or (self._proven and failure.cause in batch.CAUSES)


def _why(failure: Failure) -> str:
    line = f": {failure.root_line[:CONTAINED]}" if failure.root_line else ""
    return f"the engine ended with this sample in hand, twice, at last with it alone ({failure.cause}{line})"


def _a_samples(failure: Failure, hand: Sequence[int], *, given_up: bool) -> Failure:
    samples = f"sample {hand[0]}" if len(hand) == 1 else f"samples {hand[0]} to {hand[-1]}"
    advice = (
        f"With {samples} alone in hand the engine ended again: it is passed over."
        if given_up
        else f"The engine ended with {samples} in hand: tried again at the end, one by one."
    )
    return dataclasses.replace(failure, kind="transient", advice=advice, mended=True)


def _no_samples(failure: Failure, count: int) -> Failure:
    advice = (
        f"{count} attempts in a row ended with samples in hand and none was done between: it is the engine or the "
        f"host, not these samples. Look at the line, then run `extract` again: it goes on. {failure.advice}"
    )
    return dataclasses.replace(failure, kind="fatal", advice=advice.rstrip())
