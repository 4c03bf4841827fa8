"""The body of `fab check`: the static level from the cached surface, offline; again on each change of a patch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from local import patches
from local.levels import patch, static
from local.levels.decide import FAIL
from remote.engines.defaults import gate_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from local.static.tree import Surface
    from remote.schema import Check, Job

_PAUSE = 0.3  # between two looks at the patch files: shorter than anyone notices
_WHY = (
    "Suggested by the static level: each change follows from what the installed sources say, and none was tried. "
    "Review it, then\nrun the gate."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckOutcome:
    """The checks `patch` and `static`, and a new patch of the series with every known fix (empty for none)."""

    checks: tuple[Check, ...]
    suggestion: str

    @property
    def failed(self) -> bool:
        """Whether either says no."""
        return any(check.status == FAIL for check in self.checks)

    @property
    def clean(self) -> bool:
        """Whether nothing was found that wants a fix; a note says why something is no finding."""
        return all(finding.severity == "note" for check in self.checks for finding in check.findings)


def idle(job: Job) -> bool:
    """Tell whether a job has no modules to look at: nobody fetches sources for it."""
    return not gate_of(job).modules


def nothing() -> CheckOutcome:
    """Give the outcome for such a job."""
    return CheckOutcome(checks=(static.nothing(),), suggestion="")


def check(
    job: Job,
    sources: Surface,
    *,
    root: Path = patches.SERIES,
    no_patches: bool = False,
    without: Collection[str] = (),
    everything: bool = False,
    architectures: tuple[str, ...] = (),
) -> CheckOutcome:
    """Apply the series in `root` to the sources and examine the result; raises UsageError for a bad patch file."""
    series = patches.load_series(root)
    versions = dict(sources.versions)
    texts = {path: sources.reads(path) for each in series for path in each.files}
    if no_patches:
        first, applied = patch.skipped(), patches.Applied()
    else:
        first, applied = patch.decide(series, versions, texts, job, without=without)
    if first.status == FAIL:
        return CheckOutcome(checks=(first,), suggestion="")
    whole = patches.reviewed(series, versions, applied)
    decided = static.decide(
        job, sources, applied.files, reviewed=whole, everything=everything, architectures=architectures
    )
    suggestion = decided.examination.suggest(
        subject="Follow the signatures of the installed release", why=_WHY, applies_to=_applies_to(sources)
    )
    return CheckOutcome(checks=(first, decided.check), suggestion=suggestion)


def changes(root: Path, *, pause: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yield at once, and again whenever a file below `root` has changed."""
    seen = _stamps(root)
    while True:
        yield
        while (now := _stamps(root)) == seen:
            pause(_PAUSE)
        seen = now


def _applies_to(sources: Surface) -> str:
    named = {name: version for name in ("speculators", "vllm") if (version := sources.version(name)) is not None}
    return "; ".join(f"{name}=={version.partition('+')[0]}" for name, version in named.items())


def _stamps(root: Path) -> frozenset[tuple[str, int, int]]:
    found = []
    for path in root.rglob("*.patch"):
        try:
            stat = path.stat()
        except FileNotFoundError:  # an editor is replacing it
            continue
        found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return frozenset(found)
