"""What of a workdir is not needed any more: a pure decision on what was seen there. Outputs are never looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

RECENT = 3600.0  # seconds for which a bundle that was used, or a file half written, may have somebody behind it
DAY = 86400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenRun:
    """A run's folder; `busy` says why it must stay, whatever its age."""

    name: str
    age: float
    bundle: str | None = None
    fingerprint: str | None = None
    busy: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenBundle:
    """A bundle; `age` is the time since it was last used."""

    name: str
    age: float
    busy: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenVerdict:
    """A stored verdict, of the job that it is on; without a bundle when it cannot be understood."""

    name: str
    age: float
    fingerprint: str = ""
    job: str = ""
    bundle: str | None = None
    passed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """Something beside those: a leftover, or the bytecode of a bundle (`of`)."""

    kind: str
    name: str
    age: float
    of: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """All that stands in a workdir."""

    runs: Sequence[SeenRun] = ()
    bundles: Sequence[SeenBundle] = ()
    verdicts: Sequence[SeenVerdict] = ()
    others: Sequence[Other] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One thing to remove, and why."""

    kind: str
    name: str
    why: str
    age: float


def decide(seen: Seen, *, keep: int) -> tuple[Item, ...]:
    """Give what can go: runs, then what nothing that stays has a use for."""
    gone = _old_runs(seen.runs, max(0, keep))
    staying = [run for run in seen.runs if run.name not in gone]
    verdicts = _needed_verdicts(seen.verdicts, staying)
    bundles = {run.bundle for run in staying} | {each.bundle for each in verdicts}
    old_bundles = {each.name for each in seen.bundles if not (each.busy or each.age < RECENT or each.name in bundles)}
    return (
        *(Item(kind="run", name=run.name, why="an ended run", age=run.age) for run in seen.runs if run.name in gone),
        *_bundles(seen.bundles, old_bundles),
        *_verdicts(seen.verdicts, {each.name for each in verdicts}),
        *_others(seen.others, {each.name for each in seen.bundles} - old_bundles),
    )


def _old_runs(runs: Sequence[SeenRun], keep: int) -> set[str]:
    """Give the runs beyond the newest `keep` of those that have ended."""
    ended = sorted((run.name for run in runs if run.busy is None), reverse=True)  # a name begins with the start's time
    return set(ended[keep:])


def _needed_verdicts(verdicts: Sequence[SeenVerdict], runs: Iterable[SeenRun]) -> list[SeenVerdict]:
    """Give the verdicts that a run that stays was started on, and the newest word and newest pass on each job."""
    named = {run.fingerprint for run in runs}
    newest: dict[tuple[str, bool], SeenVerdict] = {}
    for each in sorted(verdicts, key=lambda one: one.age, reverse=True):
        newest[each.job, False] = each
        if each.passed:
            newest[each.job, True] = each
    wanted = {each.name for each in newest.values() if each.bundle is not None}
    return [each for each in verdicts if each.name in wanted or each.fingerprint in named or each.age < DAY]


def _bundles(bundles: Iterable[SeenBundle], old: set[str]) -> Iterator[Item]:
    why = "named by no run that stays and by no latest verdict"
    return (Item(kind="bundle", name=each.name, why=why, age=each.age) for each in bundles if each.name in old)


def _verdicts(verdicts: Iterable[SeenVerdict], needed: set[str]) -> Iterator[Item]:
    why = "not the latest on its job, and no run that stays was started on it"
    return (Item(kind="verdict", name=each.name, why=why, age=each.age) for each in verdicts if each.name not in needed)


def _others(others: Iterable[Other], bundles: set[str]) -> Iterator[Item]:
    for each in others:
        if each.kind == "bytecode" and each.of not in bundles:
            yield Item(kind="bytecode", name=each.name, why="of a bundle that is gone, or goes", age=each.age)
        elif each.kind == "leftover" and each.age >= RECENT:
            yield Item(kind="leftover", name=each.name, why="left by something that was interrupted", age=each.age)
