"""What all hosts sent, brought into one folder: what stands, what is missing, from whom, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.markup import escape

from local.errors import JobFailed, PrudentError
from local.fetching import plan, telling
from local.fetching.crew import Crew
from local.summary import size
from local.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.console import Console

    from local.fetching.options import Options
    from local.fetching.place import Place
    from local.fetching.stream import Source

SHOWN = 10  # samples that could not be had are named, up to so many


@dataclass(frozen=True, slots=True)
class Collected:
    """What one host sent: its manifest, put in its place, or None and why."""

    source: Source
    holding: plan.Holding
    manifest: Path | None
    why: str = ""


@dataclass
class Result:
    """What came of a fetch; `troubles` are told at the end, and decide the exit code."""

    wanted: int = 0
    present: int = 0
    crew: Crew | None = None
    troubles: list[PrudentError] = field(default_factory=list)


def bring(console: Console, place: Place, options: Options, collected: Mapping[str, Collected], result: Result) -> None:
    """Fetch what is missing, and write the merged manifest however it ends; `result` is filled as things come."""
    have = {name: one for name, one in collected.items() if one.manifest is not None}
    for name, one in collected.items():
        told = f"{len(one.holding.entries)} samples: {one.manifest}"
        if one.manifest is None:
            told = f"no manifest in {one.source.output}: {one.why}"
        console.print(f"[bold]{escape(name)}[/]  {escape(clean(told))}", soft_wrap=True)
    if collected and not have:
        raise JobFailed(
            "no host has a manifest, by which outputs are fetched",
            remedy="`fab extract` writes it with them. What a program of your own (engine 'command') writes has none: "
            "copy it with rsync or scp.",
        )
    if not options.samples or not have:
        return
    place.make()
    with place.held():
        try:
            _samples(console, place, options, have, result)
        finally:
            if result.crew is not None:
                _close(console, place, result.crew)
    result.troubles += _troubles(result.crew)


def _samples(console: Console, place: Place, options: Options, have: Mapping[str, Collected], result: Result) -> None:
    holdings = [one.holding for one in have.values()]
    own = plan.Holding(str(place.root), {index: entry for index, (entry, _) in place.lines().items()})
    if troubles := plan.mixed([*holdings, own]):
        raise JobFailed(
            f"these samples must not lie in one folder: {'; '.join(troubles)}",
            remedy="Fetch each kind to a folder of its own: fab -H HOST fetch --samples --to FOLDER.",
        )
    if options.spans and (count := plan.nowhere(holdings, options.spans)):
        said = f"{count} of the samples that were asked for are on no host that answered"
        result.troubles.append(JobFailed(said, remedy="`fab extract` computes them."))
    wanted = plan.chosen(holdings, options.spans)
    standing = _standing(console, place, wanted, holdings)
    missing = wanted - standing.keys()
    result.wanted, result.present = len(wanted), len(standing)
    coming = place.make_room(entry for entries in plan.deal(holdings, missing).values() for entry in entries)
    sources = {name: one.source for name, one in have.items()}
    with telling.Coming(console, len(missing), coming) as bar:
        result.crew = Crew(
            sources, holdings, place, options.parallel, options.patience,
            on_bytes=bar.on_bytes, on_sample=bar.on_sample, on_link=bar.on_link, came=standing,
        )  # fmt: skip
        result.crew.go(missing)


def _standing(
    console: Console, place: Place, wanted: set[int], holdings: list[plan.Holding]
) -> dict[int, plan.Standing]:
    hashed: list[int] = []
    standing = place.standing(wanted, holdings, hashed.append)
    if hashed:
        kept = len(set(hashed) & standing.keys())
        console.print(f"{len(hashed)} samples stood here that nothing vouched for: {kept} are what a manifest says")
    if standing:
        console.print(f"{len(standing)} of {len(wanted)} samples stand here already")
    return standing


def _close(console: Console, place: Place, crew: Crew) -> None:
    """Write the merged manifest and say what came."""
    lines = place.keep_lines(crew.came)
    place.sweep()
    telling.print_shares(console, crew.shares)
    total = size(sum(share.size for share in crew.shares.values()))
    console.print(f"{lines} samples in {escape(str(place.samples))}, {total} of them came now", soft_wrap=True)
    if strangers := place.strangers():
        said = f"{len(strangers)} sample files there are in no manifest, the first is data_{strangers[0]}.pt"
        console.print(f"[yellow]note[/] {said}: a trainer would take them; move them away", soft_wrap=True)


def _troubles(crew: Crew | None) -> list[PrudentError]:
    """Give what the exit code is to say: hosts that were lost, samples that could not be had."""
    if crew is None:
        return []
    troubles = [share.error for share in crew.shares.values() if share.error is not None]
    lost = {name for name, share in crew.shares.items() if share.error is not None}
    bad = {index: told for index, told in crew.failed.items() if told[0] not in lost}
    if bad:
        first = [f"data_{index}.pt on {host} {why}" for index, (host, why) in sorted(bad.items())[:SHOWN]]
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        troubles.append(
            JobFailed(
                f"{len(bad)} samples cannot be had: {'; '.join(first)}{more}",
                remedy="`fab verify` on that host finds what is damaged, `fab extract` computes it again.",
            )
        )
    return troubles
