"""Plots as geometry: scales, ticks, paths and bars in the units of one view box. Pure; the template draws them.

Small on purpose: a library that draws as well brings a script or an array library along, and the page has to do without
both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from local.story.measure import Attempt, Points

WIDTH, HEIGHT = 760.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 14.0, 14.0, 34.0
ROW, GAP = 26.0, 8.0
ROWS = 30  # attempts that are drawn, the latest
SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
WANTED = 5  # ticks of an axis


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A place on an axis and its label."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One series as the `d` of a path; `mean` stands out among others."""

    d: str
    mean: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """Series over time in a view box."""

    lines: tuple[Line, ...]
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """A stretch of time in a row."""

    x: float
    y: float
    width: float
    phase: str
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """Something that went wrong, at its moment."""

    x: float
    y: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bars:
    """Attempts below each other over time."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    rows: tuple[Tick, ...]
    x: tuple[Tick, ...]
    phases: tuple[str, ...]
    height: float
    width: float = WIDTH
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    row: float = ROW


def plot(series: Sequence[Points], *, end: float, highest: float | None = None) -> Plot | None:
    """Draw series over the seconds from 0 to `end`; None where there is nothing to draw."""
    values = [point[1] for points in series for point in points if point is not None]
    if not values:
        return None
    steps = _steps(highest if highest is not None else max(values))
    across, up = _across(end), _scale(0.0, steps[-1], HEIGHT - BOTTOM, TOP)
    lines = [Line(d=_path(points, across, up)) for points in series]
    if len(series) > 1:
        lines.append(Line(d=_path(_mean(series), across, up), mean=True))
    return Plot(
        lines=tuple(line for line in lines if line.d),
        x=_times(end),
        y=tuple(Tick(at=round(up(step), 1), label=_short(step)) for step in steps),
    )


def bars(attempts: Sequence[Attempt], *, end: float) -> Bars | None:
    """Draw the latest attempts below each other; None where there is none."""
    shown, across = attempts[-ROWS:], _across(end)
    if not shown:
        return None
    made, marks, rows, phases = [], [], [], []
    for place, attempt in enumerate(shown):
        y = TOP + place * (ROW + GAP)
        rows.append(Tick(at=y + ROW * 0.68, label=f"№ {attempt.number}"))
        for span in attempt.spans:
            x, to = across(span.start), across(span.end)
            phases += [span.phase] if span.phase not in phases else []
            made.append(Bar(x=_r(x), y=y, width=_r(max(0.5, to - x)), phase=_phase(span.phase), label=span.phase))
        if attempt.ended is not None and attempt.ended.get("class") not in ("done", "stopped"):
            cause = attempt.ended.get("cause") or "failed"
            marks.append(Mark(x=_r(across(attempt.end)), y=y + ROW / 2, label=str(cause)))
    height = TOP + len(shown) * (ROW + GAP) + BOTTOM
    return Bars(
        bars=tuple(made), marks=tuple(marks), rows=tuple(rows), x=_times(end), phases=tuple(map(_phase, phases)),
        height=height,
    )  # fmt: skip


def span(seconds: float) -> str:
    """Give a moment of the time axis as a label."""
    for size, unit in UNITS:
        if seconds >= size:
            return f"{_short(seconds / size)} {unit}"
    return "0"


def _phase(name: str) -> str:
    """Give a phase as a class of the style sheet: what it does not know is other."""
    return name if name in ("starting", "loading", "extracting", "verifying") else "other"


def _mean(series: Sequence[Points]) -> Points:
    """Give the mean of series that were measured together."""
    at: dict[float, list[float]] = {}
    for points in series:
        for point in points:
            if point is not None:
                at.setdefault(point[0], []).append(point[1])
    return tuple((when, sum(values) / len(values)) for when, values in sorted(at.items()))


def _path(points: Points, across: _Scale, up: _Scale) -> str:
    """Give the path of a series; a point alone becomes a short stroke, or it would not be seen."""
    parts, run = [], 0
    for point in [*points, None]:
        if point is None:
            parts += ["h0.1"] if run == 1 else []
            run = 0
            continue
        parts.append(f"{'L' if run else 'M'}{_r(across(point[0]))} {_r(up(point[1]))}")
        run += 1
    return "".join(parts)


class _Scale:
    """A linear scale, clamped to its ends."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self._low, self._high, self._first, self._last = low, high, first, last

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low) if self._high > self._low else 0.0
        return self._first + min(1.0, max(0.0, share)) * (self._last - self._first)


def _scale(low: float, high: float, first: float, last: float) -> _Scale:
    return _Scale(low, high, first, last)


def _across(end: float) -> _Scale:
    return _Scale(0.0, max(end, 1e-6), LEFT, WIDTH - RIGHT)


def _times(end: float) -> tuple[Tick, ...]:
    step = next((step for step in SECONDS if end / step <= WANTED), math.ceil(end / WANTED / 604800) * 604800)
    across = _across(end)
    return tuple(Tick(at=_r(across(n * step)), label=span(n * step)) for n in range(int(end / step) + 1))


def _steps(highest: float) -> list[float]:
    """Give round values from 0 to at least `highest`."""
    rough = max(highest, 1e-9) / (WANTED - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    return [n * step for n in range(math.ceil(highest / step - 1e-9) + 1)] if highest > 0 else [0.0, 1.0]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"  # noqa: PLR2004 - thousands


def _r(value: float) -> float:
    return round(value, 1)
