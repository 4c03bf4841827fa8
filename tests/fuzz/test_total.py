"""The sum of it: no part may lose its inputs without somebody seeing it."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.fuzz import budget


def test_every_run_sees_twenty_thousand_inputs_at_least() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(f"tests.fuzz.{path.stem}")
    assert sum(budget.PARTS.values()) >= budget.LEAST, budget.PARTS
    assert min(budget.PARTS.values()) >= 300
