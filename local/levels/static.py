"""Level `static`: the patched modules held against the sources of the host's packages, without an import."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from local import surface
from local.later import Room
from local.levels.decide import SKIP, check
from local.sharing import Shared
from remote.engines.defaults import gate_of
from remote.schema import Check

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from local.levels.context import Context
    from local.static import examine as static
    from local.static.examine import Examination, Subject
    from local.static.tree import Surface
    from remote.schema import Job
else:  # a remembered verdict needs none of it
    static = Room("local.static.examine")

LEVELS = ("static",)
_SHARED: Shared[Decided] = Shared()


@dataclass(frozen=True, slots=True)
class Decided:
    """The check, and what it was decided from: the examination makes the patch of suggestions."""

    check: Check
    examination: Examination


def begin(context: Context) -> Generator[Check]:
    """Fetch the surface where the laptop lacks it, and decide."""
    if not gate_of(context.job).modules:
        yield nothing()
        return
    named = context.facts.architectures
    if context.surface is not None:
        sources = surface.received(context.host.name, context.job, context.surface, architectures=named)
    else:
        sources = surface.fetch(context.host, context.job, bundle=context.bundle, architectures=named)
    began = time.monotonic()
    seen = decided(
        context.job,
        sources,
        context.applied.files,
        reviewed=context.reviewed,
        architectures=named,
    )
    yield replace(seen.check, seconds=round(time.monotonic() - began, 3))


def decided(
    job: Job, sources: Surface, patched: Mapping[str, str], *, reviewed: bool, architectures: Sequence[str]
) -> Decided:
    """Decide once: hosts with the same packages and patches share one examination, and it may have begun ahead."""
    named = sources.fingerprint or id(sources), sources.python, sources.versions
    key = *named, tuple(sorted(patched.items())), gate_of(job).modules, reviewed, tuple(architectures)
    return _SHARED.once(key, lambda: decide(job, sources, patched, reviewed=reviewed, architectures=architectures))


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
        return Decided(nothing(), static.Examination((), {}))
    subject = static.Subject(sources, modules, patched, tuple(architectures), reviewed)
    examination = static.examine(subject)
    facts = {
        "modules": list(modules),
        "architectures": list(architectures),
        "versions": dict(sources.versions),
        **_told(subject, examination),
    }
    found = examination.findings(everything=everything)
    made = check("static", sorted(found, key=lambda each: each.severity != "error"), facts)  # what matters first
    return Decided(replace(made, seconds=round(time.monotonic() - began, 3)), examination)


def nothing() -> Check:
    """Give the check of a job that has nothing to look at."""
    why = "the job's gate names no modules, and its engine has none of its own"
    return Check(id="static", status=SKIP, facts={"why": why})


def _told(subject: Subject, examination: Examination) -> dict[str, object]:
    known = static.baseline_of(subject)
    dismissed: dict[str, int] = {}
    for problem in examination.problems:
        if problem.dismissed is not None:
            dismissed[problem.dismissed] = dismissed.get(problem.dismissed, 0) + 1
    written = f"{known.library} {known.version} was written for {known.title}" if known else None
    return {"surface": subject.surface.fingerprint, "baseline": written, "dismissed": dismissed}
