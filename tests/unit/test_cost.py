"""What hosts cost: pure arithmetic, and amounts as people say them."""

from __future__ import annotations

import pytest

from local import cost


@pytest.mark.parametrize(
    ("rate", "seconds", "amount"),
    [
        (36.0, 3600.0, 36.0),
        (36.0, 90.0, 0.9),
        (0.0, 3600.0, 0.0),
        (36.0, -5.0, 0.0),
        (None, 3600.0, None),
        (36.0, None, None),
    ],
)
def test_what_was_spent(rate: float | None, seconds: float | None, amount: float | None) -> None:
    assert cost.spent(rate, seconds) == (None if amount is None else pytest.approx(amount))


@pytest.mark.parametrize(
    ("rate", "seconds", "left", "amount"),
    [
        (36.0, 1800.0, 1800.0, 36.0),
        (36.0, 1800.0, -1.0, 18.0),
        (36.0, 1800.0, None, None),
        (None, 1800.0, 1800.0, None),
        (36.0, None, 1800.0, None),
    ],
)
def test_what_is_expected(rate: float | None, seconds: float | None, left: float | None, amount: float | None) -> None:
    assert cost.expected(rate, seconds, left) == (None if amount is None else pytest.approx(amount))


def test_a_total_is_of_what_is_known() -> None:
    assert cost.total([1.5, None, 2.0]) == pytest.approx(3.5)
    assert cost.total([None, None]) is None
    assert cost.total([]) is None
    assert cost.total([0.0]) == 0.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "$1,234.50"),
        (0.0, "$0.00"),
        (0.004, "$0.00"),
        (-0.004, "$0.00"),
        (-3.5, "-$3.50"),
        (None, "–"),
        (1e9, "$1,000,000,000.00"),
    ],
)
def test_money(value: float | None, text: str) -> None:
    assert cost.money(value) == text
