"""Long series made short, with bounded memory while they are read: events and measurements of a run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

T = TypeVar("T")
OTHERS = 2000  # events besides progress that are kept, from both ends
LONGEST = 2000  # characters of a text
MOST = 64  # entries of a list or an object
DEEPEST = 4
LARGEST = float(1 << 62)


class Thinner(Generic[T]):
    """Takes a series of any length and keeps at most `limit` of it, evenly, the first and the last among them."""

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._stride = 1
        self._seen = 0
        self._kept: list[T] = []
        self._last: list[T] = []

    def add(self, item: T) -> None:
        """Take one in."""
        if self._seen % self._stride == 0:
            self._kept.append(item)
            if len(self._kept) >= 4 * self._limit:
                self._kept = self._kept[::2]
                self._stride *= 2
        self._seen += 1
        self._last = [item]

    def result(self) -> list[T]:
        """Give what was kept, in order."""
        ends = self._last if self._kept and self._last[0] is not self._kept[-1] else []
        return evenly([*self._kept, *ends], self._limit)


def evenly(items: Sequence[T], limit: int) -> list[T]:
    """Give at most `limit` (two or more) of the items, evenly spread, the first and the last among them."""
    if len(items) <= limit:
        return list(items)
    return [items[round(place * (len(items) - 1) / (limit - 1))] for place in range(limit)]


def thinned(events: Iterable[dict[str, Any]], points: int) -> tuple[list[dict[str, Any]], int]:
    """Give the events of a run with its progress thinned to `points`, and how many others were left out."""
    progress: Thinner[tuple[int, dict[str, Any]]] = Thinner(points)
    first: list[tuple[int, dict[str, Any]]] = []
    last: deque[tuple[int, dict[str, Any]]] = deque(maxlen=OTHERS // 2)
    others = 0
    for place, event in enumerate(events):
        if event.get("event") == "progress":
            progress.add((place, bounded(event)))
            continue
        others += 1
        (first if len(first) < OTHERS // 2 else last).append((place, bounded(event)))
    kept = sorted([*first, *last, *progress.result()], key=lambda each: each[0])
    return [event for _, event in kept], others - len(first) - len(last)


def bounded(value: Any, depth: int = 0) -> Any:
    """Give a JSON value with its texts, lists and depth cut to a size that can be sent."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else value[:LONGEST] + "…"
    if isinstance(value, dict | list) and depth >= DEEPEST:
        return None
    if isinstance(value, int | float) and not -LARGEST < value < LARGEST:
        return None  # what no measurement is; not a number at all among it
    if isinstance(value, dict):
        return {str(key)[:LONGEST]: bounded(item, depth + 1) for key, item in list(value.items())[:MOST]}
    return [bounded(item, depth + 1) for item in value[:MOST]] if isinstance(value, list) else value
