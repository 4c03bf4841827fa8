"""A writer that is killed between any two system calls leaves a state from which resuming is right."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.crash import tracer

if TYPE_CHECKING:
    from tests.chaos.pretend import Pretence

pytestmark = pytest.mark.skipif(not tracer.SUPPORTED, reason="system calls can be counted on Linux only")
HERE = Path(__file__).parent / "crash"
# scenario → how many points it has at least
QUICK = {
    "write a sample": 10, "replace a damaged sample": 10, "adopt": 5, "keep the ledger": 20, "install a bundle": 10,
    "a whole attempt": 40,
}  # fmt: skip
SLOW = {"launch": 15, "supervise": 40}
PARTS = 6  # side by side: each run is waited for


def crash(pretence: Pretence, folder: Path, scenario: str, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Try the points of a scenario under the pretended host's Python."""
    answer = folder / "answer.json"
    words = [HERE, scenario, folder / "points", pretence.bundle.root.parent, part, parts, answer]
    with tempfile.TemporaryDirectory(prefix="crash-") as short:  # one that sockets have room in
        variables = {"HOME": str(folder), "PYTHONPATH": str(pretence.bundle.payload), "TMPDIR": short}
        done = subprocess.run(
            [pretence.python, *map(str, words)],
            stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=folder,
            env={"PATH": os.environ["PATH"], **variables},
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


@pytest.mark.parametrize("scenario", SLOW)
def test_a_run_whose_starter_or_owner_is_killed_is_finished_by_the_next_extract(
    pretence: Pretence, tmp_path: Path, scenario: str
) -> None:
    folders = [tmp_path / str(part) for part in range(PARTS)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(PARTS) as pool:
        results = list(pool.map(lambda part: crash(pretence, folders[part], scenario, part, PARTS), range(PARTS)))
    tried, points = sum(result["tried"] for result in results), min(result["points"] for result in results)
    assert points >= SLOW[scenario], results[0]["calls"]
    assert tried >= points
    wrong = [one for result in results for one in result["wrong"]]
    assert not wrong, "\n".join(wrong)
