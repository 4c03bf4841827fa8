"""One answer for a dataset whose samples stand on many hosts. Pure functions of what verify said on each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from local.errors import PrudentError, UsageError
from local.summary import size
from local.tables import plain
from local.text import clean
from remote import ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.table import Table

    from remote.schema import VerifyAnswer

SCHEMA = 1
FEW = 8  # ranges that are told one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """How a dataset stands: samples that are valid on some host, on none, on several; and files that are damaged."""

    total: int
    valid: tuple[int, ...]
    missing: tuple[int, ...]
    doubled: tuple[int, ...]
    damaged: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Say whether every sample is valid somewhere."""
        return self.total > 0 and not self.missing


def judge(answers: Mapping[str, VerifyAnswer]) -> Whole | None:
    """Put together what the hosts have; None where none could say. Raises UsageError where their datasets differ."""
    sound = {name: answer for name, answer in answers.items() if answer.whole}
    if not sound:
        return None
    _agree(sound)
    total = max(answer.whole for answer in sound.values())
    counted = Counter(index for answer in sound.values() for index in ranges.parse(answer.ranges))
    damaged = {index for answer in sound.values() for index in ranges.parse(answer.damaged_ranges)}
    return Whole(
        total=total,
        valid=tuple(sorted(counted)),
        missing=tuple(index for index in range(total) if index not in counted),
        doubled=tuple(sorted(index for index, count in counted.items() if count > 1)),
        damaged=tuple(sorted(damaged)),
    )


def _agree(answers: Mapping[str, VerifyAnswer]) -> None:
    known: dict[tuple[int, str], list[str]] = {}
    models: dict[str, list[str]] = {}
    for name, answer in answers.items():
        known.setdefault((answer.whole, answer.dataset), []).append(name)
        if answer.model and answer.ranges:  # of a host that holds nothing no model's states are mixed in
            models.setdefault(answer.model, []).append(name)
    by_size = {whole for whole, _ in known}
    named = {dataset for _, dataset in known if dataset}
    if len(by_size) > 1 or len(named) > 1:
        told = "; ".join(f"{', '.join(names)} ({whole} samples)" for (whole, _), names in known.items())
        raise UsageError(
            f"the hosts hold different datasets: {told}",
            remedy="Name only hosts of one dataset with -H, or bring the same file to all of them.",
        )
    if len(models) > 1:
        told = "; ".join(f"{', '.join(names)} ({clean(model)[:12]})" for model, names in models.items())
        raise UsageError(
            f"the hosts hold states of different models: {told}",
            remedy="They must not be trained from as one: name only hosts of one model with -H.",
        )


def words(seen: Whole) -> str:
    """Say in a line how the dataset stands."""
    said = [f"{len(seen.valid)} of {seen.total} samples are valid"]
    if seen.missing:
        said.append(f"{len(seen.missing)} are missing everywhere")
    if seen.doubled:
        said.append(f"{len(seen.doubled)} stand on more than one host, which harms nobody")
    if seen.damaged:
        said.append(f"{len(seen.damaged)} files are damaged")
    return ", ".join(said)


def table(answers: Mapping[str, VerifyAnswer | PrudentError], outputs: Mapping[str, str], seen: Whole) -> Table:
    """Show what each host holds, and what all of them hold together."""
    made = plain("host", "valid", "which", "damaged", "tokens", "size", "output", right=("valid", "tokens", "size"))
    made.caption, made.caption_justify = f"the dataset: {words(seen)}", "left"
    for name, answer in answers.items():
        if isinstance(answer, PrudentError):
            made.add_row(escape(name), "?", f"[red]not known: {type(answer).__name__}[/]", "", "", "", "")
            continue
        made.add_row(
            escape(name),
            f"{answer.valid}/{answer.whole}",
            escape(clean(shortly(answer.ranges))),
            f"[red]{escape(clean(shortly(answer.damaged_ranges)))}[/]" if answer.damaged_ranges else "",
            f"{answer.tokens:,}",
            size(answer.size),
            escape(clean(outputs.get(name, ""))),
        )
    return made


def document(
    job: str, answers: Mapping[str, VerifyAnswer | PrudentError], outputs: Mapping[str, str], seen: Whole | None
) -> dict[str, Any]:
    """Give the document of `verify --json`."""
    told = (seen.valid, seen.missing, seen.doubled, seen.damaged) if seen else ((), (), (), ())
    names = ("valid", "missing", "doubled", "damaged")
    return {
        "schema": SCHEMA,
        "job": job,
        "whole": seen is not None and seen.complete,
        "total": seen.total if seen else 0,
        **{name: ranges.tell(indices) for name, indices in zip(names, told, strict=True)},
        "hosts": {name: _host(answer, outputs.get(name)) for name, answer in answers.items()},
    }


def _host(answer: VerifyAnswer | PrudentError, output: str | None) -> dict[str, Any]:
    if isinstance(answer, PrudentError):
        return {"valid": "", "damaged": "", "output": output, "tokens": 0, "bytes": 0, "error": answer.message}
    return {
        "valid": answer.ranges, "damaged": answer.damaged_ranges, "output": output, "tokens": answer.tokens,
        "bytes": answer.size, "error": None if answer.whole else _why(answer),
    }  # fmt: skip


def _why(answer: VerifyAnswer) -> str:
    return answer.findings[0].message if answer.findings else "it could not be verified"


def few(indices: Iterable[int]) -> str:
    """Name samples as ranges, the first of them where they are many."""
    return shortly(ranges.tell(indices))


def shortly(text: str) -> str:
    """Shorten a text of many ranges."""
    parts = text.split(",") if text else []
    return ", ".join(parts[:FEW]) + (f" and {len(parts) - FEW} more ranges" if len(parts) > FEW else "")
