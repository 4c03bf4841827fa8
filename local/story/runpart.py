"""The run's part of a page: how it ended, its attempts and faults over time, throughput, GPUs, outputs, log. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from local.story import measure, plots
from local.story.blocks import Chart, Code, Facts, Note, Section, Table
from local.story.words import cell, fault, moment, rate
from local.summary import duration, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from local.story.blocks import Block, Cell
    from local.story.measure import Points
    from remote.schema import Story

GIB = 2**30
SHOWN = 60  # rows of a table of attempts or faults
FINDINGS = 20
QUIET = frozenset({"progress", "started", "attempt", "phase", "plan", "attempt-ended", "ended"})
NOT_TOLD = frozenset({"n", "time", "attempt", "event"})


def ending(story: Story) -> Section | None:
    """Tell why a run did not end well; nothing of one that did."""
    ended, status = story.exit, story.status
    if status.phase == "done" and not (ended and (ended.left_running or ended.gpu_held)) and not story.faults:
        return None
    rows = [("phase", status.phase), ("cause", status.cause or ""), ("kind", (ended.kind or "") if ended else "")]
    rows += [("exit code", "" if status.exit is None else str(status.exit))]
    if ended is not None:
        rows.append(("left running", ", ".join(map(str, ended.left_running))))
        rows.append(("still counted by a GPU", ", ".join(map(str, ended.gpu_held))))
    blocks: list[Block] = [Facts(rows=tuple((label, text) for label, text in rows if text))]
    if ended is not None and ended.root_line:
        blocks.append(Code(title="The line that decided", lines=tuple(ended.root_line.split("\n"))))
    if ended is not None and ended.advice:
        blocks.append(Note(text=ended.advice, tone="info"))
    blocks += [Note(text=f"Not understood: {text}", tone="warn") for text in story.faults]
    return Section(id="end", title="How it stands" if ended is None else "How it ended", blocks=tuple(blocks))


def timeline(story: Story, start: float, end: float) -> Section:
    """Tell of attempts and faults over time."""
    found = measure.attempts(story.events, start, end)
    blocks: list[Block] = []
    drawn = plots.bars(found, end=end - start)
    if drawn is not None:
        blocks.append(Chart(title="Attempts over time", said=_said_of(found), bars=drawn))
    rows = [_attempt(attempt) for attempt in found[-SHOWN:]]
    titles = ("attempt", "began", "took", "samples", "ended", "cause", "the line that decided")
    if rows:
        blocks.append(Table(titles=titles, rows=tuple(rows), right=(0, 1, 2, 3), caption="Attempts"))
    blocks += _events(story, start)
    return Section(id="timeline", title="Timeline", blocks=tuple(blocks) or (Note(text="Nothing has happened yet."),))


def _attempt(attempt: measure.Attempt) -> tuple[Cell, ...]:
    ended = attempt.ended or {}
    return (
        cell(attempt.number),
        cell(f"+{duration(attempt.start)}"),
        cell(duration(attempt.end - attempt.start)),
        cell("" if attempt.done is None else f"{attempt.done:,}"),
        cell(ended.get("class", "goes on")),
        cell(_one_line(ended.get("cause"))),
        cell(_one_line(ended.get("root_line")), tone=""),
    )


def _said_of(found: tuple[measure.Attempt, ...]) -> str:
    parts = [
        f"attempt {attempt.number}: "
        + ", ".join(f"{span.phase} {duration(span.end - span.start)}" for span in attempt.spans)
        for attempt in found[-plots.ROWS :]
    ]
    return "; ".join(parts)


def _events(story: Story, start: float) -> Iterator[Block]:
    told = [event for event in story.events if event.get("event") not in QUIET]
    rows = []
    for event in told[-SHOWN:]:
        when = measure.number(event.get("time"))
        said = ", ".join(f"{key} {_one_line(value)}" for key, value in event.items() if key not in NOT_TOLD and value)
        moment_ = "" if when is None else f"+{duration(max(0.0, when - start))}"
        rows.append((cell(moment_), cell(event.get("attempt")), cell(event.get("event")), cell(said, tone="")))
    if rows:
        titles = ("when", "attempt", "event", "what it says")
        yield Table(titles=titles, rows=tuple(rows), right=(0, 1), caption="What else happened")
    missing = len(told) - len(rows) + story.left_out
    if missing:
        yield Note(text=f"{missing} earlier events are not shown; the run's events.jsonl has them.")


def throughput(story: Story, start: float, end: float) -> Section | None:
    """Tell how fast it went."""
    tokens = measure.rate(story.events, start, "tokens")
    unit = "tokens" if any(point and point[1] > 0 for point in tokens) else "done"
    points = tokens if unit == "tokens" else measure.rate(story.events, start, "done")
    name = "tokens" if unit == "tokens" else "samples"
    mean = rate(measure.average(story.events, unit), name)
    samples = story.status.samples
    blocks = [
        *_chart(f"{name.capitalize()} per second", f"{mean} on average while extracting", (points,), end - start),
        *_chart(
            "Samples done",
            f"{samples.done:,} of {samples.total:,}" if samples.total else f"{samples.done:,}",
            (measure.level(story.events, start),),
            end - start,
        ),
    ]
    return Section(id="throughput", title="Throughput", blocks=tuple(blocks)) if blocks else None


def gpus(story: Story, start: float, end: float) -> Section | None:
    """Tell what the GPUs did while it ran; nothing where nobody measured it."""
    total = [most for points in measure.cards(story.vitals, start, "memory_total", GIB) for most in _values(points)]
    told: tuple[tuple[str, str, float, float | None], ...] = (
        ("GPU utilisation, %", "utilisation", 1.0, 100.0),
        ("GPU memory in use, GiB", "memory_used", GIB, max(total, default=None)),
        ("GPU temperature, °C", "temperature", 1.0, None),
    )
    blocks: list[Block] = []
    for title, name, scale, highest in told:
        series = measure.cards(story.vitals, start, name, scale)
        values = [value for points in series for value in _values(points)]
        if values:
            count = f"{len(series)} GPU{'' if len(series) == 1 else 's'}"
            said = f"{count}: {sum(values) / len(values):.1f} on average, {max(values):.1f} at most"
            blocks += _chart(title, said, series, end - start, highest)
    disk = measure.single(story.vitals, start, "disk_free", GIB)
    if disk:
        low = min(_values(disk))
        blocks += _chart("Free on the output's file system, GiB", f"{low:.1f} at least", (disk,), end - start)
    return Section(id="gpus", title="GPUs and disk", blocks=tuple(blocks)) if blocks else None


def _values(points: Points) -> list[float]:
    return [point[1] for point in points if point is not None]


def _chart(
    title: str, said: str, series: tuple[Points, ...], end: float, highest: float | None = None
) -> Iterator[Chart]:
    drawn = plots.plot(series, end=end, highest=highest)
    if drawn is not None:
        yield Chart(title=title, said=said, plot=drawn)


def outputs(story: Story) -> Section:
    """Tell what was written, and what the last check of it said."""
    made, checked = story.written, story.verified
    blocks: list[Block] = []
    if made is not None:
        longest = f"{made.shortest:,} to {made.longest:,} tokens"
        rows = (
            ("folder", story.status.output or ""), ("samples", f"{made.samples:,} ({longest})"),
            ("tokens", f"{made.tokens:,}"), ("size", size(made.size)), ("dtype", ", ".join(made.dtypes)),
            ("layers", ", ".join(map(str, made.layers))), ("hidden size", ", ".join(map(str, made.hidden))),
            ("found damaged since", str(made.condemned) if made.condemned else ""),
            ("model", ", ".join(name[:16] for name in made.models)),
        )  # fmt: skip
        blocks.append(Facts(rows=tuple((label, text) for label, text in rows if text)))
    else:
        said = f"Its outputs are in {story.status.output}; " if story.status.output else ""
        blocks.append(Note(text=f"{said}no manifest is there: nothing here can say what they hold."))
    if checked is None:
        blocks.append(Note(text="Not verified yet: `fab verify` holds every file against dataset and manifest."))
    else:
        answer = checked.answer
        whole = answer.total and answer.valid == answer.total and not answer.damaged and not answer.missing
        said = f"{answer.valid} of {answer.total} samples valid, {answer.missing} missing, {answer.damaged} damaged"
        more = f", {answer.extra} not of the dataset" if answer.extra else ""
        told = f"Verified on {moment(checked.time)}: {said}{more}."
        if not answer.total:
            told = f"Could not be verified on {moment(checked.time)}."
        blocks.append(Note(text=told, tone="good" if whole else "bad"))
        blocks += [fault(finding) for finding in answer.findings[:FINDINGS]]
    return Section(id="outputs", title="Outputs", blocks=tuple(blocks))


def log(story: Story) -> Section | None:
    """Tell what the log said around each failure."""
    blocks = [
        Code(title=excerpt.why, lines=excerpt.lines, marked=excerpt.marked, folded=excerpt.marked is None)
        for excerpt in story.excerpts
    ]
    return Section(id="log", title="The log around failures", blocks=tuple(blocks)) if blocks else None


def job(story: Story) -> Section | None:
    """Tell what was launched. Of its environment the names alone: values are nobody's business."""
    if story.request is None:
        return None
    launched = story.request.job
    rows = (
        ("name", launched.name), ("engine", launched.engine), ("model", launched.model), ("dataset", launched.dataset),
        ("samples", story.request.shard or ""), ("command", " ".join(launched.command)),
        ("layers", ", ".join(map(str, launched.layers))),
        ("tensor parallel", str(launched.tensor_parallel)), ("longest prompt", f"{launched.max_model_len:,} tokens"),
        ("batch", str(launched.batch_size)), ("device", launched.device), ("Python", launched.python),
        ("environment", ", ".join([*launched.env, *launched.secret_env])), ("retries", str(launched.retry.transient)),
        ("bundle", story.request.bundle[:16]),
    )  # fmt: skip
    return Section(
        id="job", title="The job", blocks=(Facts(rows=tuple((label, text) for label, text in rows if text)),)
    )


def _one_line(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= 300 else f"{text[:300]}…"  # noqa: PLR2004 - a cell of a table


def of_plan(facts: Mapping[str, Any]) -> str:
    """Say what the gate had expected a run to take."""
    load, extract = measure.number(facts.get("load")), measure.number(facts.get("extract"))
    parts = [f"{duration(load)} to load{' (assumed)' if facts.get('assumed') else ''}"] if load is not None else []
    parts += [f"{duration(extract)} to extract"] if extract is not None else []
    return ", ".join(parts)
