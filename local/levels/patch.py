"""Level `patch`: the series held against the installed sources. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local import patches
from local.levels.decide import check
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from local.patches import Applied, Patch
    from remote.schema import Check, Job


def decide(
    series: Sequence[Patch],
    versions: Mapping[str, str],
    sources: Mapping[str, str | None],
    job: Job,
    *,
    without: Collection[str] = (),
) -> tuple[Check, Applied]:
    """Apply what is meant for these versions; gives the check and the patched sources."""
    meant = patches.select(series, versions)
    chosen = patches.select(series, versions, without=without)
    applied = patches.apply(chosen, sources, versions=versions)
    findings = [*applied.findings, *_none_meant(series, meant, versions, job)]
    left_out = [patch.number for patch in meant if patch not in chosen]
    facts = {"patches": applied.states, "without": left_out, "files": sorted(applied.files)}
    return check("patch", findings, facts), applied


def skipped() -> Check:
    """Give the check of a host that is gated as it is."""
    return check("patch", (), {"patches": {}, "no_patches": True, "files": []})


def _none_meant(
    series: Sequence[Patch], meant: Sequence[Patch], versions: Mapping[str, str], job: Job
) -> Iterator[Finding]:
    if meant or not series or job.engine != "speculators":
        return
    installed = patches.known_as(versions)
    names = sorted({need.name for patch in series for need in patch.applies_to})
    has = ", ".join(f"{name} {installed.get(name, 'not installed')}" for name in names)
    wants = "; ".join(sorted({patch.meant_for for patch in series}))
    yield Finding(
        rule="patch-none",
        severity="warning",
        message=f"no patch of the series is meant for what is installed ({has}): they are meant for {wants}. "
        "The host is gated as it is",
    )
