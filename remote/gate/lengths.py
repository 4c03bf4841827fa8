"""What a dataset's samples are like once they are tokens: their lengths, and those that a run would stumble over."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from remote.prompts.tokens import Tokens

SHOWN = 3  # places named in a finding


@dataclass(slots=True)
class Seen:
    """How many samples have a fault, and where the first of them stand."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.places) < SHOWN:
            self.places.append(place)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.places)} more" if self.count > len(self.places) else ""
        return ", ".join(self.places) + more


@dataclass(slots=True)
class Lengths:
    """Samples that were tokenised, cut to `longest`; `complete` says that they are all of the dataset."""

    longest: int
    lengths: array[int] = field(default_factory=lambda: array("i"))
    complete: bool = True
    truncated: Seen = field(default_factory=Seen)
    unmasked: Seen = field(default_factory=Seen)
    problems: Seen = field(default_factory=Seen)
    first_problem: str = ""

    @property
    def tokens(self) -> int:
        """Give the tokens of all samples seen."""
        return sum(self.lengths)

    def facts(self) -> dict[str, Any]:
        """Give the distribution for the report."""
        ordered = sorted(self.lengths)
        return {
            "seen": len(ordered),
            "complete": self.complete,
            "tokens": self.tokens,
            **{name: _quantile(ordered, part) for name, part in QUANTILES.items()},
            "truncated": self.truncated.count,
            "empty_loss_mask": self.unmasked.count,
            "unusable": self.problems.count,
        }


QUANTILES = {"shortest": 0.0, "median": 0.5, "p90": 0.9, "p99": 0.99, "longest": 1.0}


def measure(
    samples: Iterable[Tokens], longest: int, *, budget: float, clock: Callable[[], float] = time.monotonic
) -> Lengths:
    """Go through samples (tokenised to one token more than `longest`) until they or `budget` seconds end."""
    seen = Lengths(longest)
    until = clock() + budget
    for sample in samples:
        if sample.problem is not None:
            seen.problems.add(sample.where)
            seen.first_problem = seen.first_problem or sample.problem
        elif not any(sample.loss_mask[:longest]):
            seen.unmasked.add(sample.where)
        if len(sample) > longest:
            seen.truncated.add(sample.where)
        seen.lengths.append(min(len(sample), longest))
        if clock() > until:
            seen.complete = False
            break
    return seen


def judge(seen: Lengths, *, file: str) -> tuple[Finding, ...]:
    """Give the findings: an error where no sample would be of use, warnings where some are not."""
    total = len(seen.lengths)
    found = []
    if seen.problems.count:
        nothing = seen.problems.count == total
        message = (
            f"{seen.problems.count} of {total} samples cannot be extracted ({seen.problems}): the first "
            f"{seen.first_problem}. {'Nothing would be extracted.' if nothing else 'They will count as failed.'}"
        )
        found.append(_finding("dataset-unusable-samples", message, file, error=nothing or "vocabulary" in message))
    if seen.unmasked.count:
        nothing = seen.unmasked.count == total
        message = (
            f"{seen.unmasked.count} of {total} samples have an empty loss mask within {seen.longest} tokens "
            f"({seen.unmasked}): nothing can be learned from them. Conversations need an assistant's turn that the "
            "chat template marks; a larger max_model_len helps where it is cut off."
        )
        found.append(_finding("dataset-empty-loss-mask", message, file, error=nothing))
    if seen.truncated.count:
        message = (
            f"{seen.truncated.count} of {total} samples are longer than {seen.longest} tokens and will be cut to that "
            f"({seen.truncated}). Raise max_model_len to keep them whole."
        )
        found.append(_finding("dataset-truncated", message, file, error=False))
    return tuple(found)


def _finding(rule: str, message: str, file: str, *, error: bool) -> Finding:
    return Finding(rule=rule, message=message, file=file, severity="error" if error else "warning")


def _quantile(ordered: list[int], part: float) -> int:
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0
