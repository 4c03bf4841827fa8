"""What happened, as numbers over time: rates from progress, states of the GPUs, the spans of attempts. Pure.

Whatever an event lacks is passed over: events come from a host, and a job of the user's own may write them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Event = Mapping[str, Any]

LARGEST = 1e15  # nothing here is more: bytes, tokens, seconds since the epoch
WINDOWS = 120  # points of a rate
Points = tuple[tuple[float, float] | None, ...]  # (seconds from the start, value); None breaks the line


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A stretch of one attempt in one phase, in seconds from the run's start."""

    phase: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt: its spans, how it ended, and what it had done."""

    number: int
    spans: tuple[Span, ...]
    start: float
    end: float
    ended: Event | None = None
    done: int | None = None


def number(value: Any) -> float | None:
    """Give a number that something was measured as, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LARGEST < value < LARGEST:
        return None
    return float(value)


def began(events: Sequence[Event], otherwise: float) -> float:
    """Give the moment of the first event."""
    return next((when for event in events if (when := number(event.get("time"))) is not None), otherwise)


def rate(events: Iterable[Event], start: float, unit: str) -> Points:
    """Give `unit` (tokens or done) per second over windows within one attempt."""
    series = list(_progress(events, unit))
    times = [when for _, when, _ in series]
    least = (max(times) - min(times)) / WINDOWS if times else 0.0
    points: list[tuple[float, float] | None] = []
    anchor: tuple[int, float, float] | None = None
    for attempt, when, value in series:
        if anchor is None or anchor[0] != attempt or value < anchor[2]:
            points += [None] if points else []
            anchor = (attempt, when, value)
        elif when - anchor[1] > least:
            points.append((when - start, (value - anchor[2]) / (when - anchor[1])))
            anchor = (attempt, when, value)
    return tuple(points)


def average(events: Iterable[Event], unit: str) -> float | None:
    """Give `unit` per second over all the time in which any was done."""
    seconds = amount = 0.0
    before: tuple[int, float, float] | None = None
    for attempt, when, value in _progress(events, unit):
        if before is not None and before[0] == attempt and when > before[1] and value >= before[2]:
            seconds, amount = seconds + when - before[1], amount + value - before[2]
        before = (attempt, when, value)
    return amount / seconds if seconds > 0 and amount > 0 else None


def level(events: Iterable[Event], start: float) -> Points:
    """Give the samples done over time."""
    points: list[tuple[float, float] | None] = []
    before: int | None = None
    for attempt, when, value in _progress(events, "done"):
        points += [None] if before not in (None, attempt) else []
        points.append((when - start, value))
        before = attempt
    return tuple(points)


def _progress(events: Iterable[Event], unit: str) -> Iterator[tuple[int, float, float]]:
    for event in events:
        when, value, attempt = number(event.get("time")), number(event.get(unit)), event.get("attempt")
        if event.get("event") == "progress" and when is not None and value is not None:
            yield (attempt if type(attempt) is int else 0), when, value


def cards(vitals: Iterable[Event], start: float, name: str, scale: float = 1.0) -> tuple[Points, ...]:
    """Give one series per GPU of what was measured of it."""
    series: dict[int, list[tuple[float, float] | None]] = {}
    for line in vitals:
        when, gpus = number(line.get("time")), line.get("gpus")
        for place, gpu in enumerate(gpus if isinstance(gpus, list) else []):
            value = number(gpu.get(name)) if isinstance(gpu, dict) else None
            if when is not None and value is not None:
                index = gpu["index"] if type(gpu.get("index")) is int else place
                series.setdefault(index, []).append((when - start, value / scale))
    return tuple(tuple(series[index]) for index in sorted(series))


def single(vitals: Iterable[Event], start: float, name: str, scale: float = 1.0) -> Points:
    """Give the series of one measurement of the whole host."""
    found = ((number(line.get("time")), number(line.get(name))) for line in vitals)
    return tuple((when - start, value / scale) for when, value in found if when is not None and value is not None)


def attempts(events: Iterable[Event], start: float, end: float) -> tuple[Attempt, ...]:
    """Give the attempts of a run with their phases; the last is open until `end` where nothing has ended it."""
    found: dict[int, list[Event]] = {}
    for event in events:
        if type(event.get("attempt")) is int and event["attempt"] > 0 and number(event.get("time")) is not None:
            found.setdefault(event["attempt"], []).append(event)
    return tuple(_attempt(index, own, start, end) for index, own in sorted(found.items()))


def _attempt(index: int, events: Sequence[Event], start: float, end: float) -> Attempt:
    # `retry` bears the number of the attempt to come: it tells of the wait before it, not of its start.
    own = [event for event in events if event.get("event") != "retry"] or list(events)
    first = float(own[0]["time"]) - start
    ended = next((event for event in own if event.get("event") == "attempt-ended"), None)
    last = float(ended["time"]) - start if ended is not None else end - start
    spans, phase, since = [], "starting", first
    for event in own:
        now = float(event["time"]) - start
        if event.get("event") == "phase" and isinstance(event.get("phase"), str):
            spans.append(Span(phase=phase, start=since, end=max(since, now)))
            phase, since = event["phase"], now
    spans.append(Span(phase=phase, start=since, end=max(since, last)))
    done = [value for event in own if (value := number(event.get("done"))) is not None]
    return Attempt(
        number=index, spans=tuple(spans), start=first, end=max(first, last), ended=ended,
        done=int(done[-1]) if done else None,
    )  # fmt: skip
