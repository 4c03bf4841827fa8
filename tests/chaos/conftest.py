"""Seeds and their replay: `CHAOS_SEED=n` lives through one schedule, `CHAOS_N=n` through so many."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.pretend import Pretence

if TYPE_CHECKING:
    from pathlib import Path

BASE = "CHAOS_BASE"  # the first seed of a session; workers of xdist inherit it


def pytest_configure(config: pytest.Config) -> None:
    del config
    os.environ.setdefault(BASE, str(random.SystemRandom().randrange(10**6) * 10**4))


def pytest_report_header() -> str:
    one = os.environ.get("CHAOS_SEED")
    return f"chaos: one schedule, CHAOS_SEED={one}" if one else f"chaos: seeds from CHAOS_BASE={os.environ[BASE]} on"


@pytest.fixture(scope="session")
def pretence(tmp_path_factory: pytest.TempPathFactory) -> Pretence:
    """Make the pretended host's environment once."""
    root: Path = tmp_path_factory.mktemp("pretence")
    return Pretence.make(root)
