"""`--patience` and `--wait`: how long a lost link, and the gates of the other hosts, are waited for."""

from __future__ import annotations

import pytest

from local.errors import UsageError
from local.tasks import extract, watching


@pytest.mark.parametrize(
    ("told", "seconds"), [(None, None), ("90", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("0", 0.0)]
)
def test_patience_is_a_duration(told: str | None, seconds: float | None) -> None:
    assert watching.duration(told, "--patience") == seconds


@pytest.mark.parametrize("option", ["patience", "wait"])
@pytest.mark.parametrize("told", ["", "soon", "-5", "10 parsecs", "1e9", "9" * 400, "99999999999h"])
def test_what_is_no_duration_is_said_before_any_host_is_reached(told: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"^--{option}: expected a duration"):
        extract.foresee((), **{option: told})  # type: ignore[arg-type]


def test_the_plan_as_a_document_is_for_a_dry_run() -> None:
    extract.foresee((), json=True, dry_run=True)
    with pytest.raises(UsageError, match="--dry-run"):
        extract.foresee((), json=True)
