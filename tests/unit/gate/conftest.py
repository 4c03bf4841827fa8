"""A gate over a scripted host: a cache, a series and a run of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from local import gate
from local.gate import GateOutcome, preflight
from local.gateoptions import GateOptions
from tests.unit.test_levels import job

if TYPE_CHECKING:
    from collections.abc import Callable

    from local.patches import Patch
    from remote.schema import (
        Check,
        Job,
    )
from tests.unit.gate.scripted import SERIES, FakeHost


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("PRUDENT_GATE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def series(monkeypatch: pytest.MonkeyPatch) -> tuple[Patch, ...]:
    monkeypatch.setattr(gate, "load_series", lambda: SERIES)
    return SERIES


@pytest.fixture
def watched() -> list[Check]:
    return []


@pytest.fixture
def run(watched: list[Check]) -> Callable[..., GateOutcome]:
    def call(host: FakeHost, wanted: Job | None = None, **options: Any) -> GateOutcome:
        watched.clear()
        return preflight(
            host,
            wanted or job(),
            GateOptions(**options),
            watched.append,
            {"HF_TOKEN": "hush-hush"},  # type: ignore[arg-type]
        )

    return call
