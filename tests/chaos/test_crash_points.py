"""A writer that is killed between any two system calls leaves a state from which resuming is right."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.crash import tracer

if TYPE_CHECKING:
    from tests.chaos.pretend import Pretence

pytestmark = pytest.mark.skipif(not tracer.SUPPORTED, reason="system calls can be counted on Linux only")
HERE = Path(__file__).parent / "crash"
# scenario → how many points it has at least, and in how many parts it is tried side by side
QUICK = {
    "write a sample": 10, "replace a damaged sample": 10, "adopt": 5, "keep the ledger": 20, "install a bundle": 10,
    "a whole attempt": 40,
}  # fmt: skip
PARTS = 6


def crash(pretence: Pretence, folder: Path, scenario: str, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Try the points of a scenario under the pretended host's Python."""
    answer = folder / "answer.json"
    words = [HERE, scenario, folder / "points", pretence.bundle.root.parent, part, parts, answer]
    done = subprocess.run(
        [pretence.python, *map(str, words)],
        stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(pretence.bundle.payload)},
    )  # fmt: skip
    assert answer.exists(), done.stderr.decode()[-4000:]
    result: dict[str, Any] = json.loads(answer.read_text())
    return result


@pytest.mark.parametrize("scenario", QUICK)
def test_a_killed_writer_leaves_what_can_be_resumed(pretence: Pretence, tmp_path: Path, scenario: str) -> None:
    result = crash(pretence, tmp_path, scenario)
    assert result["points"] >= QUICK[scenario], result["calls"]
    assert result["tried"] >= result["points"]
    assert not result["wrong"], "\n".join(result["wrong"])


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("scenario", ["launch", "supervise"])
def test_a_run_whose_starter_or_owner_is_killed_is_finished_by_the_next_extract(
    pretence: Pretence, tmp_path: Path, scenario: str, part: int
) -> None:
    result = crash(pretence, tmp_path, scenario, part, PARTS)
    assert result["tried"] >= 2
    assert not result["wrong"], "\n".join(result["wrong"])
