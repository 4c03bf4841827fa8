"""`check` and `matrix`: the static level on the laptop, from kept sources; no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local import checktask, gate, patches, render, surface, tables
from local import matrix as matrices
from local import report as reports
from local.errors import GateRefused, UsageError
from local.gateoptions import GateOptions
from local.summary import print_error
from local.tasks.gate import numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from local.checktask import CheckOutcome
    from local.screen import Screen
    from local.static.tree import Surface
    from local.steps import Chosen
    from local.targets import Target

PINNED = {"speculators": "0.3.0", "vllm": "0.16.0"}  # what a matrix holds still where no host was ever asked
WRITTEN = "suggested patch"
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
    _foresee(GateOptions(no_patches=no_patches, without=left_out), suggest)
    kept = [
        (target, None if checktask.idle(target.job) else surface.remembered(target.name, target.job.name))
        for target in chosen.targets
    ]
    screen = chosen.screen

    def examined(target: Target, sources: Surface) -> CheckOutcome:
        return checktask.check(
            target.job,
            sources,
            no_patches=no_patches,
            without=left_out,
            everything=everything,
            architectures=surface.architectures(target.name, target.job.name),
        )

    def look() -> None:
        refused, suggestions, well = [], {}, True
        for target, sources in kept:
            outcome = checktask.nothing() if sources is None else examined(target, sources)
            for made in outcome.checks:
                render.print_check(screen.console, target.name if len(kept) > 1 else "", made)
            refused += [target.name] if outcome.failed else []
            suggestions[target.name] = outcome.suggestion
            well = well and outcome.clean
        if suggest and well:
            screen.console.print("nothing was found that wants a fix; nothing was written")
        elif suggest:
            _suggest(screen, suggest, suggestions)
        if refused:
            raise GateRefused(f"the static level refuses {', '.join(refused)}", remedy="The findings above say why.")

    if watch:
        _watch(screen, look)
    else:
        look()


def _foresee(options: GateOptions, suggest: str | None) -> None:
    """Refuse options that cannot work, before anything is examined; raises UsageError."""
    if suggest:
        reports.writable(suggest, WRITTEN)
    if options.choice:
        gate.foresee(options)


def _watch(screen: Screen, look: Callable[[], None]) -> None:
    """Look again on every change of a patch: what is half written, or wrong, is told and does not end the watch."""
    for _ in checktask.changes(patches.SERIES):
        if screen.console.is_terminal:
            screen.console.file.write(CLEAR)
        try:
            look()
        except (GateRefused, UsageError) as error:
            print_error(screen.console, error)


def matrix(chosen: Chosen, *, package: str = "vllm", releases: str | None = None) -> None:
    """Show which releases of a package the first host's job fits, as they are and with the patches."""
    target = chosen.targets[0]
    versions = matrices.choose(package, releases) if releases else ()
    under = _under(target, package)
    versions = versions or matrices.choose(package, installed=under.version(package) or PINNED.get(package))
    rows = []
    for row in matrices.matrix(target.job, package, versions, under=under):
        rows.append(matrices.cells(row))
        chosen.screen.console.print(
            f"{package} {row.version}: {rows[-1][2]}", style="dim", markup=False, soft_wrap=True
        )
    tables.show((), tables.matrix(package, rows))


def _suggest(screen: Screen, name: str, suggestions: Mapping[str, str]) -> None:
    """Write the patch of all known fixes; `-` is standard output, where nothing else goes.

    A file holds one patch: hosts of different releases are asked for one by one.
    """
    different = sorted({made for made in suggestions.values() if made})
    if not different:
        screen.console.print("no fix is known for what was found; nothing was written")
        return
    if len(different) > 1:
        named = ", ".join(host for host, made in suggestions.items() if made)
        raise UsageError(
            f"{named} need patches of their own; nothing was written",
            where="--suggest",
            remedy="Name one of them with -H.",
        )
    reports.publish(name, different[0], WRITTEN)
    if name != "-":
        said = f"every known fix is in {name}: review it, nothing was applied"
        screen.console.print(said, markup=False, soft_wrap=True)


def _under(target: Target, package: str) -> Surface:
    """Give what stays the same in every row: the host's packages where they are known, else the release we patch."""
    try:
        return surface.remembered(target.name, target.job.name)
    except UsageError:
        return matrices.base({name: version for name, version in PINNED.items() if name != package})
