"""What hosts cost: dollars per hour times seconds. Pure; None is "not known", which is never shown as nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HOUR = 3600.0


def spent(usd_per_hour: float | None, seconds: float | None) -> float | None:
    """Give what so many seconds of a host cost; a clock that runs backwards costs nothing."""
    if usd_per_hour is None or seconds is None:
        return None
    return usd_per_hour * max(0.0, seconds) / HOUR


def expected(usd_per_hour: float | None, seconds: float | None, left: float | None) -> float | None:
    """Give what it will have cost at the end, when `left` seconds are still to come; None while that is not known."""
    if seconds is None or left is None:
        return None
    return spent(usd_per_hour, max(0.0, seconds) + max(0.0, left))


def total(amounts: Iterable[float | None]) -> float | None:
    """Add up what is known; None where nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def money(value: float | None) -> str:
    """Give an amount as people say it: $1,234.50; what is not known is a dash."""
    if value is None:
        return "–"
    return f"-${-value:,.2f}" if round(value, 2) < 0 else f"${abs(value):,.2f}"
