"""How fast a run goes, when it will be done, and its past as a line of little bars. Pure: from points to numbers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remote.schema import Point

    Count = Callable[[Point], int]

WINDOW = 180.0  # seconds over which a speed is measured
SPAN = 600.0  # seconds that a line of bars shows
LEAST_GAP = 10.0  # seconds between two words of progress that are never taken for a standstill
BARS = "▁▂▃▄▅▆▇█"
PLAIN_BARS = "_.-:=+*#"  # for terminals that have no more


def speed(points: Sequence[Point], now: float, of: Count, *, window: float = WINDOW) -> float | None:
    """Give what is done per second in the present attempt; None while two words of it are not there yet.

    Progress comes in steps. It is measured from step to step, and only a silence of more than two steps counts as one.
    """
    own = _of_last_attempt(points)
    if len(own) < 2:  # noqa: PLR2004 - two points make a speed
        return None
    end = _end(own, now)
    first = max((at for at, point in enumerate(own) if point.time <= end - window), default=0)
    seconds = end - own[first].time
    return _gained(own[first:], of) / seconds if seconds > 0 else None


def left(amount: int, done: int, per_second: float | None) -> float | None:
    """Give the seconds that the rest will take; None where that cannot be known."""
    if not amount or not per_second or per_second <= 0:
        return None
    return max(0, amount - done) / per_second


def series(points: Sequence[Point], now: float, of: Count, *, width: int, span: float = SPAN) -> list[float | None]:
    """Give the speed in `width` slices of the past, the newest last; None where nothing is known."""
    if len(points) < 2:  # noqa: PLR2004 - as above
        return [None] * width
    end = _end(points, now)
    step = span / width
    edges = [end - span + step * index for index in range(width + 1)]
    return [_between(points, a, b, of) for a, b in pairwise(edges)]


def bars(values: Sequence[float | None], *, plain: bool = False) -> str:
    """Give a line of bars, the highest of them for the highest value, blanks for what is not known."""
    ramp = PLAIN_BARS if plain else BARS
    most = max((value for value in values if value is not None), default=0.0)
    return "".join(" " if value is None else _bar(value, most, ramp) for value in values)


def _bar(value: float, most: float, ramp: str) -> str:
    return ramp[min(len(ramp) - 1, int(value / most * len(ramp)))] if most > 0 else ramp[0]


def _of_last_attempt(points: Sequence[Point]) -> list[Point]:
    last = max((point.attempt for point in points), default=0)
    return [point for point in points if point.attempt == last]


def _end(points: Sequence[Point], now: float) -> float:
    """Give the end of what is measured: the last word of progress, or now when it has been silent for too long."""
    gap = (points[-1].time - points[0].time) / (len(points) - 1)
    return points[-1].time if now - points[-1].time <= max(LEAST_GAP, 2 * gap) else now


def _gained(points: Sequence[Point], of: Count) -> int:
    return sum(max(0, of(b) - of(a)) for a, b in pairwise(points))


def _between(points: Sequence[Point], start: float, end: float, of: Count) -> float | None:
    """Give the speed between two moments: each step's gain is spread evenly over its time."""
    if end <= points[0].time:
        return None
    gained = 0.0
    for a, b in pairwise(points):
        shared = min(b.time, end) - max(a.time, start)
        if shared > 0 and a.attempt == b.attempt:  # between two attempts nothing was done
            gained += max(0, of(b) - of(a)) * shared / (b.time - a.time)
    return gained / (end - start)
