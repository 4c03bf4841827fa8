"""The static level against many releases of a package: which of them fits this job's code and patches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from local import patches
from local.errors import PrudentError, UsageError
from local.levels import patch, static
from local.levels.decide import FAIL, PASS, WARN
from local.static import releases

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from local.patches import Patch
    from local.static.tree import Surface
    from remote.schema import Check, Finding, Job

LIMIT = 12  # releases in one matrix: each is some 20 MB to fetch, once
FITS, WARNS, FAILS, UNKNOWN = "fits", "warns", "no", "unknown"
_WORD = {PASS: FITS, WARN: WARNS, FAIL: FAILS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One way to run a release: as it is, or with the series. `patches` are the numbers that apply."""

    verdict: str
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    patches: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One release: as it is, and with the patches that are meant for it; `trouble` where it could not be fetched."""

    package: str
    version: str
    bare: Cell
    patched: Cell
    trouble: str | None = None

    @property
    def fits(self) -> bool:
        """Whether the job's code stands on this release in either way."""
        return {self.bare.verdict, self.patched.verdict} & {FITS, WARNS} != set()


def choose(
    package: str, wanted: str | None = None, *, limit: int = LIMIT, installed: str | None = None
) -> tuple[str, ...]:
    """Give the releases named (`0.15.0,0.16.0`), of a range (`>=0.12,<0.18`) or the newest; raises UsageError.

    Before the newest comes the installed one, where it is older: it is what all others are measured by.
    """
    if wanted and not any(sign in wanted for sign in "<>=~!"):
        named = tuple(dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip()))
        if not named:
            raise UsageError(f"{wanted!r} names no release", remedy="Name some, as in '0.15.0,0.16.0', or a range.")
        return _bounded(package, named, limit)
    known = releases.versions(package)
    if not wanted:
        newest, own = known[-limit:], (installed or "").partition("+")[0]
        return newest if own in newest or own not in known else (own, *newest)
    try:
        inside = SpecifierSet(wanted)
    except InvalidSpecifier:
        raise UsageError(f"{wanted!r} is no range of releases", remedy="Ranges look like '>=0.12,<0.18'.") from None
    found = tuple(version for version in known if version in inside)
    if not found:
        raise UsageError(f"no release of {package} is {wanted}", remedy=f"The index has {known[0]} to {known[-1]}.")
    return _bounded(package, found, limit)


def base(fixed: Mapping[str, str]) -> Surface:
    """Give a surface of releases alone, for a matrix without any host: `{"speculators": "0.3.0"}`."""
    parts = [*(releases.fetch(name, version) for name, version in fixed.items()), *releases.helpers()]
    return releases.surface(parts)


def matrix(
    job: Job, package: str, versions: Sequence[str], *, under: Surface, series: Sequence[Patch] | None = None
) -> Iterator[Row]:
    """Yield a row per release of the package, everything else as in the surface `under`."""
    known = patches.load_series() if series is None else tuple(series)
    for version in versions:
        try:
            sources = releases.surface([releases.fetch(package, version)], under=under)
        except UsageError:
            raise
        except PrudentError as error:
            nothing = Cell(verdict=UNKNOWN)
            yield Row(package=package, version=version, bare=nothing, patched=nothing, trouble=error.message)
            continue
        bare = _cell(static.decide(job, sources, {}).check)
        yield Row(package=package, version=version, bare=bare, patched=_patched(job, sources, known) or bare)


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """Give a row of the table: release, as it is, with patches, which patches, the first thing in the way."""
    if row.trouble is not None:
        return row.version, UNKNOWN, UNKNOWN, "", row.trouble
    best = row.patched if row.patched.patches else row.bare
    first = next(iter((*best.errors, *best.warnings)), None)
    where = f"{first.file}:{first.line} {first.message}" if first else ""
    return row.version, _word(row.bare), _word(row.patched), " ".join(row.patched.patches), where


def _word(cell: Cell) -> str:
    counts = [f"{len(found)} {word}{'' if len(found) == 1 else 's'}" for word, found in _counted(cell) if found]
    return f"{cell.verdict}: {', '.join(counts)}" if counts else cell.verdict


def _counted(cell: Cell) -> tuple[tuple[str, tuple[Finding, ...]], ...]:
    return ("error", cell.errors), ("warning", cell.warnings)


def _patched(job: Job, sources: Surface, series: Sequence[Patch]) -> Cell | None:
    """Judge a release with the patches that are meant for it; None where they change nothing."""
    versions = dict(sources.versions)
    texts = {path: sources.reads(path) for each in series for path in each.files}
    first, applied = patch.decide(series, versions, texts, job)
    if first.status == FAIL:
        return _cell(first)
    if not applied.files:
        return None
    whole = patches.reviewed(series, versions, applied)
    cell = _cell(static.decide(job, sources, applied.files, reviewed=whole).check)
    return replace(cell, patches=tuple(number for number, state in applied.states.items() if state == "applies"))


def _cell(check: Check) -> Cell:
    return Cell(
        verdict=_WORD.get(check.status, UNKNOWN),
        errors=tuple(f for f in check.findings if f.severity == "error"),
        warnings=tuple(f for f in check.findings if f.severity == "warning"),
    )


def _bounded(package: str, versions: tuple[str, ...], limit: int) -> tuple[str, ...]:
    if len(versions) > limit:
        raise UsageError(
            f"{len(versions)} releases of {package} are too many for one matrix (at most {limit})",
            remedy=f"Narrow the range: it starts at {versions[0]} and ends at {versions[-1]}.",
        )
    return versions
