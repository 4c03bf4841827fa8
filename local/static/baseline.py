"""What was already so in the releases that a library was written for; made once by `local.static.record`, kept as data.

The static level tells news from noise by it: a report that these releases get too is no news, a default that they had
is no change. Places are functions and names, never line numbers.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "baselines"
_NAMES = re.compile(r"`([A-Za-z_][\w.]*)`")


@dataclass(frozen=True, slots=True)
class Baseline:
    """`reported` are keys of reports, `defaults` the values a field had, `returns` what a call gave back."""

    library: str
    version: str
    written_for: Mapping[str, tuple[str, ...]]
    reported: frozenset[tuple[str, ...]] = frozenset()
    defaults: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    returns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The releases in words: `vllm 0.12.0 to 0.16.0`."""
        return ", ".join(f"{name} {_range(versions)}" for name, versions in self.written_for.items())


def load(library: str, version: str | None, folder: Path = FOLDER) -> Baseline | None:
    """Give the baseline of a library's release, None where none was recorded."""
    file = folder / f"{library}-{version}.json"
    if version is None or not file.is_file():
        return None
    data = json.loads(file.read_text("utf-8"))
    return Baseline(
        library=library,
        version=version,
        written_for={name: tuple(each) for name, each in data["written_for"].items()},
        reported=frozenset(tuple(key) for key in data["reported"]),
        defaults={c: {f: tuple(v) for f, v in fields.items()} for c, fields in data["defaults"].items()},
        returns={name: tuple(values) for name, values in data["returns"].items()},
    )


def dump(baseline: Baseline) -> str:
    """Give the text of a baseline's file, equal for equal baselines."""
    document = {
        "schema": 1,
        "library": baseline.library,
        "version": baseline.version,
        "written_for": {name: list(versions) for name, versions in baseline.written_for.items()},
        "reported": sorted(list(key) for key in baseline.reported),
        "defaults": {c: dict(sorted(baseline.defaults[c].items())) for c in sorted(baseline.defaults)},
        "returns": dict(sorted(baseline.returns.items())),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def key(rule: str, file: str, function: str, message: str) -> tuple[str, ...]:
    """Give what identifies a report across releases: types, which change, are left out, plain names stay."""
    return (rule, file, function, *_NAMES.findall(message))


def _range(versions: tuple[str, ...]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
