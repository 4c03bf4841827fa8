"""`check` and `matrix`: the static level on the laptop, from kept sources; no connection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from local import checktask, patches, render, surface, tables
from local import matrix as matrices
from local.errors import GateRefused, UsageError
from local.tasks.gate import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.screen import Screen
    from local.static.tree import Surface
    from local.steps import Chosen
    from local.targets import Target

PINNED = {"speculators": "0.3.0", "vllm": "0.16.0"}  # what a matrix holds still where no host was ever asked
CLEAR = "\x1b[2J\x1b[H"


def check(
    chosen: Chosen,
    *,
    suggest: str | None = None,
    watch: bool = False,
    without: Sequence[str] | None = None,
    no_patches: bool = False,
    everything: bool = False,
) -> None:
    """Examine the patched modules against the kept sources of each host; raises GateRefused."""
    left_out = numbers(without)
    kept = [(target, surface.remembered(target.name, target.job.name)) for target in chosen.targets]
    screen = chosen.screen
    for _ in checktask.changes(patches.SERIES) if watch else [None]:
        if watch and screen.console.is_terminal:
            screen.console.file.write(CLEAR)
        refused = []
        for target, sources in kept:
            outcome = checktask.check(
                target.job, sources, no_patches=no_patches, without=left_out, everything=everything
            )
            for made in outcome.checks:
                render.print_check(screen.console, target.name if len(kept) > 1 else "", made)
            refused += [target.name] if outcome.failed else []
            if suggest:
                _suggest(screen, Path(suggest), outcome.suggestion)
    if refused:
        raise GateRefused(f"the static level refuses {', '.join(refused)}", remedy="The findings above say why.")


def matrix(chosen: Chosen, *, package: str = "vllm", releases: str | None = None) -> None:
    """Show which releases of a package the first host's job fits, as they are and with the patches."""
    target = chosen.targets[0]
    versions = matrices.choose(package, releases)
    under = _under(target, package)
    rows = []
    for row in matrices.matrix(target.job, package, versions, under=under):
        rows.append(matrices.cells(row))
        chosen.screen.console.print(
            f"{package} {row.version}: {rows[-1][2]}", style="dim", markup=False, soft_wrap=True
        )
    tables.show((), tables.matrix(package, rows))


def _suggest(screen: Screen, path: Path, suggestion: str) -> None:
    if not suggestion:
        screen.console.print("no fix is known for what was found; nothing was written")
        return
    try:
        path.write_text(suggestion, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", where="--suggest") from error
    screen.console.print(f"every known fix is in {path}: review it, nothing was applied", markup=False, soft_wrap=True)


def _under(target: Target, package: str) -> Surface:
    """Give what stays the same in every row: the host's packages where they are known, else the release we patch."""
    try:
        return surface.remembered(target.name, target.job.name)
    except UsageError:
        return matrices.base({name: version for name, version in PINNED.items() if name != package})
