"""One run's page: its heading and its sections, from the story that the host told. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local import cost, saved
from local.story import gatepart, measure, runpart
from local.story.blocks import Facts, Page, Section, Table, Tile
from local.story.words import TONES, cell, check_named, moment, rate, table
from local.summary import duration, size
from remote.paths import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from local.saved import Saved
    from remote.schema import Story, Verdict

GOES_ON = "info"


def page(story: Story, *, host: str, usd_per_hour: float | None, gpus: int | None, titles: Mapping[str, str]) -> Page:
    """Make the page of a run."""
    start, end = span(story)
    found = gpu_count(story.verdict, gpus)
    kept = spared(story, usd_per_hour=usd_per_hour, gpus=found)
    status = story.status
    sections = (
        runpart.ending(story),
        gatepart.verdict(story),
        gatepart.versions(story, titles),
        runpart.timeline(story, start, end),
        runpart.throughput(story, start, end),
        runpart.gpus(story, start, end),
        runpart.outputs(story),
        _cost(story, kept, usd_per_hour=usd_per_hour, gpus=found),
        runpart.log(story),
        runpart.job(story),
    )
    return Page(
        host=host,
        run=story.run,
        job=status.job or "",
        outcome=status.phase,
        tone=TONES.get(status.phase, GOES_ON),
        lead=_lead(story),
        made=moment(story.now),
        took=duration(end - start),
        usd=cost.spent(usd_per_hour, end - start),
        tiles=tuple(_tiles(story, kept, usd_per_hour)),
        sections=tuple(section for section in sections if section is not None),
    )


def heading(pages: Sequence[Page]) -> str:
    """Give the heading of a document of many runs: what they cost in all, where that is known."""
    usd = cost.total(each.usd for each in pages)
    return f"{len(pages)} runs" if usd is None else f"{len(pages)} runs, {cost.money(usd)}"


def overview(pages: Sequence[Page]) -> Table:
    """Give many runs as rows."""
    rows = tuple(
        (cell(each.host, tone=""), cell(each.run, tone=""), cell(each.outcome, tone=each.tone), cell(each.took),
         cell(cost.money(each.usd)), cell(each.lead, tone=""))
        for each in pages
    )  # fmt: skip
    return Table(titles=("host", "run", "outcome", "took", "cost", "stands at"), rows=rows, right=(3, 4))


def span(story: Story) -> tuple[float, float]:
    """Give the moments between which the run went on."""
    start = measure.began(story.events, story.status.started or story.now)
    last = story.exit.ended if story.exit else story.now
    if story.status.phase in ENDED and story.exit is None:
        last = story.status.last_seen or start
    return start, max(start, last)


def gpu_count(verdict: Verdict | None, told: int | None) -> int | None:
    """Give how many GPUs the host has: what the gate saw, else what the inventory says."""
    seen = check_named(verdict.checks, "host").get("gpus") if verdict else None
    return len(seen) if isinstance(seen, list) and seen else told


def spared(story: Story, *, usd_per_hour: float | None, gpus: int | None) -> Saved | None:
    """Reckon what was refused before this run by the load that this run took, or by what the gate expected."""
    checks = [check for refused in story.refused for check in refused.checks]
    load, assumed = (sum(story.loads) / len(story.loads), False) if story.loads else _expected_load(story)
    return saved.reckon(saved.faults(checks), load=load, assumed=assumed, gpus=gpus, usd_per_hour=usd_per_hour)


def _expected_load(story: Story) -> tuple[float | None, bool]:
    told = table(check_named(story.verdict.checks, "inputs"), "time") if story.verdict else {}
    return measure.number(told.get("load")), bool(told.get("assumed"))


def _lead(story: Story) -> str:
    status = story.status
    samples = status.samples
    counted = f"{samples.done:,} of {samples.total:,} samples" if samples.total else ""
    failed = f"{samples.failed:,} failed" if samples.failed else ""
    why = (status.cause or "") if status.phase != "done" else ""
    checked = "every one verified" if _whole(story) else ""
    return ", ".join(part for part in (counted, failed, checked, why) if part)


def _whole(story: Story) -> bool:
    """Say whether the run is done and the last check found every sample valid."""
    answer, status = (story.verified.answer if story.verified else None), story.status
    if answer is None or status.phase != "done" or answer.damaged or answer.missing:
        return False
    return answer.valid == answer.total == status.samples.total > 0


def _tiles(story: Story, kept: Saved | None, usd_per_hour: float | None) -> Iterator[Tile]:
    status, (start, end) = story.status, span(story)
    attempts = f"{status.attempt} attempt{'' if status.attempt == 1 else 's'}"
    yield Tile(label="took" if status.phase in ENDED else "so far", value=duration(end - start), more=attempts)
    samples = status.samples
    if samples.total:
        more = f"{samples.failed:,} failed" if samples.failed else "none failed"
        tone = "bad" if samples.failed else ""
        yield Tile(label="samples", value=f"{samples.done:,}/{samples.total:,}", more=more, tone=tone)
    if status.tokens:
        more = rate(measure.average(story.events, "tokens"), "tokens")
        yield Tile(label="tokens", value=f"{status.tokens:,}", more=more)
    if story.written is not None:
        more = ", ".join((f"{story.written.samples:,} samples", *story.written.dtypes))  # earlier runs' among them
        yield Tile(label="in the folder", value=size(story.written.size), more=more)
    if usd_per_hour is not None:
        value = cost.money(cost.spent(usd_per_hour, end - start))
        yield Tile(label="cost", value=value, more=f"{cost.money(usd_per_hour)} an hour")
    if kept is not None:
        faults = f"{kept.faults} fault{'' if kept.faults == 1 else 's'}"
        value = cost.money(kept.usd) if kept.usd is not None else faults
        more = f"{faults} found before the load" if kept.usd is not None else "found before the load"
        yield Tile(label="the gate saved", value=value, more=more, tone="good")


def _cost(story: Story, kept: Saved | None, *, usd_per_hour: float | None, gpus: int | None) -> Section:
    start, end = span(story)
    expected = table(check_named(story.verdict.checks, "inputs"), "time") if story.verdict else {}
    usd = measure.number(expected.get("usd"))
    plan = ", ".join(part for part in (runpart.of_plan(expected), cost.money(usd) if usd is not None else "") if part)
    rows = [
        ("time", duration(end - start)),
        ("GPUs", str(gpus) if gpus else ""),
        ("price", f"{cost.money(usd_per_hour)} an hour" if usd_per_hour is not None else "not in the inventory"),
        ("cost" if story.status.phase in ENDED else "cost so far", _known(cost.spent(usd_per_hour, end - start))),
        ("the gate had expected", plan),
        ("loads", _loads(story.loads)),
        ("the gate saved", str(kept) if kept else ""),
    ]
    return Section(id="cost", title="Cost", blocks=(Facts(rows=tuple((name, text) for name, text in rows if text)),))


def _known(usd: float | None) -> str:
    return "" if usd is None else cost.money(usd)


def _loads(loads: Sequence[float]) -> str:
    return ", ".join(duration(load) for load in loads[-10:])
