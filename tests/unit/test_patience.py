"""`--patience`: how long a lost link is waited for."""

from __future__ import annotations

import pytest

from local.errors import UsageError
from local.tasks import run


@pytest.mark.parametrize(
    ("told", "seconds"), [(None, None), ("90", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("0", 0.0)]
)
def test_patience_is_a_duration(told: str | None, seconds: float | None) -> None:
    assert run._patience(told) == seconds


@pytest.mark.parametrize("told", ["", "soon", "-5", "10 parsecs", "1e9"])
def test_what_is_no_duration_is_said_before_any_host_is_reached(told: str) -> None:
    with pytest.raises(UsageError, match="expected a duration"):
        run.extract(None, patience=told)  # type: ignore[arg-type]
