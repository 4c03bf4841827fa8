"""Speeds, what is left, and the line of bars: from points alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.monitor import rates
from remote.schema import Point

if TYPE_CHECKING:
    from collections.abc import Sequence


def point(time: float, tokens: int, attempt: int = 1) -> Point:
    return Point(time=time, attempt=attempt, samples=tokens // 10, tokens=tokens)


def tokens(of: Point) -> int:
    return of.tokens


def speed(points: Sequence[Point], now: float) -> float | None:
    return rates.speed(points, now, tokens)


def test_a_steady_run() -> None:
    assert speed([point(float(at), at * 100) for at in range(0, 100, 10)], 95.0) == pytest.approx(100.0)


def test_steps_are_measured_from_step_to_step() -> None:
    """A batch each 40 s: 30 s after the last one nothing has slowed down."""
    assert speed([point(0, 0), point(40, 4000), point(80, 8000)], 110.0) == pytest.approx(100.0)


def test_a_standstill_shows() -> None:
    points = [point(0, 0), point(10, 1000), point(20, 2000)]
    assert speed(points, 100.0) == pytest.approx(20.0)
    assert speed(points, 20.0 + rates.WINDOW) == pytest.approx(0.0)
    assert speed(points, 10_000.0) == 0.0


def test_what_was_long_ago_does_not_count() -> None:
    slow = [point(float(at), at) for at in range(0, 1000, 10)]
    fast = [point(1000.0 + at, 1000 + at * 100) for at in range(0, 300, 10)]
    assert speed([*slow, *fast], 1295.0) == pytest.approx(100.0)


def test_a_new_attempt_starts_anew() -> None:
    old = [point(0, 0), point(10, 50_000)]
    assert speed([*old, point(700, 50_000, 2)], 705.0) is None
    assert speed([*old, point(700, 50_000, 2), point(710, 51_000, 2)], 715.0) == pytest.approx(100.0)


@pytest.mark.parametrize("points", [[], [point(0, 5)], [point(3, 0), point(3, 9)]])
def test_too_little_is_no_speed(points: list[Point]) -> None:
    assert speed(points, 3.0) is None


@pytest.mark.parametrize(
    ("amount", "done", "per_second", "left"),
    [(100, 50, 10.0, 5.0), (100, 120, 10.0, 0.0), (0, 0, 10.0, None), (100, 50, 0.0, None), (100, 50, None, None)],
)
def test_what_is_left(amount: int, done: int, per_second: float | None, left: float | None) -> None:
    assert rates.left(amount, done, per_second) == left


def test_the_past_in_slices() -> None:
    points = [point(0, 0), point(300, 30_000), point(600, 30_000)]
    assert rates.series(points, 600.0, tokens, width=4) == pytest.approx([100.0, 100.0, 0.0, 0.0])


def test_the_past_before_the_first_point_is_not_known() -> None:
    values = rates.series([point(450, 0), point(600, 1500)], 600.0, tokens, width=4)
    assert values[:3] == [None, None, None]
    assert values[3] == pytest.approx(10.0)


def test_between_two_attempts_nothing_was_done() -> None:
    points = [point(0, 0), point(150, 1500), point(450, 1500, 2), point(600, 3000, 2)]
    assert rates.series(points, 600.0, tokens, width=4) == pytest.approx([10.0, 0.0, 0.0, 10.0])


def test_bars() -> None:
    assert rates.bars([None, 0.0, 50.0, 100.0]) == " ▁▅█"
    assert rates.bars([None, 0.0, 50.0, 100.0], plain=True) == " _=#"
    assert rates.bars([0.0, 0.0]) == "▁▁"
    assert rates.bars([]) == ""


histories = st.lists(
    st.tuples(st.floats(0, 1e6), st.integers(0, 10**9), st.integers(1, 3)), max_size=30
).map(lambda found: [point(*one) for one in sorted(found, key=lambda one: one[0])])  # fmt: skip


@given(histories, st.floats(0, 1e6), st.integers(1, 40))
def test_no_history_makes_nonsense(points: list[Point], late: float, width: int) -> None:
    """Counts that fall back, times that are equal: never negative, never a division by nothing."""
    now = (points[-1].time if points else 0.0) + late
    found = speed(points, now)
    assert found is None or found >= 0
    values = rates.series(points, now, tokens, width=width)
    assert len(values) == width
    assert all(value is None or value >= -1e-9 for value in values)
    assert len(rates.bars(values)) == width
