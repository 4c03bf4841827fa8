"""Which releases of speculators and vLLM work together, and which are known not to (`data/version-pairs.json`).

The first row that matches decides. A row may ask that our patches are in force (`"patched": true`) or are not, and that
the gate looks at a certain module.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.code import versions
from remote.schema import Finding

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DATA = Path(__file__).parents[1] / "data" / "version-pairs.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """What is installed, under the names of the table."""

    speculators: str
    vllm: str


def table(path: Path = DATA) -> dict[str, Any]:
    """Read the table."""
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


def installed(distributions: Mapping[str, str], known: Mapping[str, Any]) -> Pair | None:
    """Give the pair among the installed distributions; None where one of the two is not installed."""
    found = {}
    for name, spellings in known["names"].items():
        found[name] = next((distributions[spelling] for spelling in spellings if spelling in distributions), None)
    if found["speculators"] is None or found["vllm"] is None:
        return None
    return Pair(speculators=found["speculators"], vllm=found["vllm"])


def row(pair: Pair, known: Mapping[str, Any], *, patched: bool, modules: Collection[str] = ()) -> dict[str, Any] | None:
    """Give the first row of the table that speaks of this pair."""
    for entry in known["pairs"]:
        if "patched" in entry and entry["patched"] != patched:
            continue
        if "module" in entry and entry["module"] not in modules:
            continue
        try:
            if versions.fits(pair.speculators, entry["speculators"]) and versions.fits(pair.vllm, entry["vllm"]):
                return dict(entry)
        except ValueError:
            return None  # a version that is no version: nothing is known of it
    return None


def judge(
    pair: Pair,
    known: Mapping[str, Any],
    *,
    patched: bool,
    modules: Collection[str] = (),
    declared: str | None = None,
) -> tuple[Finding, ...]:
    """Give a finding for a pair known to fail (error) or not known at all (warning); none for a good one.

    `declared` is the range of vLLM that the installed speculators asks for, where it does.
    """
    entry = row(pair, known, patched=patched, modules=modules)
    what = f"speculators {pair.speculators} with vLLM {pair.vllm}"
    if entry is None:
        asked = f" (it declares vllm{declared})" if declared else ""
        return (
            Finding(
                rule="version-pair-unknown",
                severity="warning",
                message=f"{what} is not a pair that we know{asked}: the rehearsal decides. "
                f"Known to fit: {_known_good(known)}.",
            ),
        )
    if entry["verdict"] == "bad":
        return (
            Finding(
                rule="version-pair-bad",
                message=f"{what} is known not to work: {entry['why']}. What fits: {'; '.join(entry['fits'])}.",
            ),
        )
    return ()


def _known_good(known: Mapping[str, Any]) -> str:
    return "; ".join(
        f"speculators{entry['speculators']} with vllm{entry['vllm']}"
        + (" and the patch series" if entry.get("patched") else "")
        for entry in known["pairs"]
        if entry["verdict"] == "good"
    )
