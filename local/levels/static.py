"""Level `static`: the patched modules held against the sources of the host's packages, without an import."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from local import surface
from local.levels.decide import SKIP, check
from local.static.examine import Examination, Subject, baseline_of, examine
from remote.engines.defaults import gate_of
from remote.schema import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local.levels.context import Context
    from local.static.tree import Surface
    from remote.schema import Job

LEVELS = ("static",)


@dataclass(frozen=True, slots=True)
class Decided:
    """The check, and what it was decided from: the examination makes the patch of suggestions."""

    check: Check
    examination: Examination


def run(context: Context) -> tuple[Check, ...]:
    """Fetch the surface where the laptop lacks it, and decide."""
    if not gate_of(context.job).modules:
        return (_nothing(),)
    sources = surface.fetch(context.host, context.job, bundle=context.bundle)
    return (decide(context.job, sources, context.applied.files, reviewed=context.reviewed).check,)


def decide(
    job: Job,
    sources: Surface,
    patched: Mapping[str, str],
    *,
    reviewed: bool = False,
    architectures: Sequence[str] = (),
    everything: bool = False,
) -> Decided:
    """Examine a job's gate modules; with `everything`, what is no finding is told too, with the reason."""
    began = time.monotonic()
    modules = gate_of(job).modules
    if not modules:
        return Decided(_nothing(), Examination((), {}))
    subject = Subject(sources, modules, patched, tuple(architectures), reviewed)
    examination = examine(subject)
    facts = {"modules": list(modules), "versions": dict(sources.versions), **_told(subject, examination)}
    made = check("static", examination.findings(everything=everything), facts)
    return Decided(replace(made, seconds=round(time.monotonic() - began, 3)), examination)


def _nothing() -> Check:
    """Give the check of a job that has nothing to look at."""
    why = "the job's gate names no modules, and its engine has none of its own"
    return Check(id="static", status=SKIP, facts={"why": why})


def _told(subject: Subject, examination: Examination) -> dict[str, object]:
    known = baseline_of(subject)
    dismissed: dict[str, int] = {}
    for problem in examination.problems:
        if problem.dismissed is not None:
            dismissed[problem.dismissed] = dismissed.get(problem.dismissed, 0) + 1
    written = f"{known.library} {known.version} was written for {known.title}" if known else None
    return {"surface": subject.surface.fingerprint, "baseline": written, "dismissed": dismissed}
