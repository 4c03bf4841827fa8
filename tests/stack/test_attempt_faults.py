"""What an attempt makes of samples and engines that fail, of signals and of full disks: no vLLM, but real files."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote import wire
from remote.paths import EVENTS_ENV
from remote.schema import LaunchRequest

if TYPE_CHECKING:
    from tests.stack.conftest import Stack

TOTAL = 9
pytestmark = pytest.mark.stack


@dataclasses.dataclass
class Ended:
    code: int
    said: str
    events: list[dict[str, Any]]
    files: set[str]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == event]


def attempt(stack: Stack, root: Path, scenario: str) -> Ended:
    dataset, output = root / "d.jsonl", root / "o"
    lines = [{"input_ids": [100 + n, *range(9)], "loss_mask": [1] * 10} for n in range(TOTAL)]
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    job = dataclasses.replace(
        stack.job, engine="scripted", layers=(1, 2), batch_size=3, dataset=str(dataset), output=str(output)
    )
    (root / "job.json").write_text(wire.dumps(LaunchRequest(job=job, bundle="b", fingerprint="f")))
    done = subprocess.run(
        [stack.python, str(Path(__file__).with_name("scripted_attempt.py")), scenario],
        cwd=root, env=stack.environment(**{EVENTS_ENV: str(root / "events")}), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
    )  # fmt: skip
    events = [json.loads(line) for line in (root / "events").read_text().splitlines()]
    return Ended(done.returncode, done.stdout, events, {path.name for path in output.iterdir()} - {"manifest.jsonl"})


def files(*indexes: int) -> set[str]:
    return {f"data_{index}.pt" for index in indexes}


def test_poison_is_told_and_the_rest_is_done(stack: Stack, tmp_path: Path) -> None:
    ended = attempt(stack, tmp_path, "poison")
    assert (ended.code, ended.files) == (10, files(0, 3, 5, 8)), ended.said
    assert {event["index"]: event["cause"] for event in ended.told("sample-failed")} == {
        1: "d.jsonl:2: ValueError: this prompt cannot be had",
        2: "d.jsonl:3: hidden states 1 are not finite (NaN or infinity)",
        4: "d.jsonl:5: hidden states 0 are all zero",
        6: "d.jsonl:7: hidden states 0 and 1 are equal: layers must differ",
        7: "d.jsonl:8: 10 tokens, but hidden states of the shapes [(9, 64)]",
    }
    last = ended.told("progress")[-1]
    assert (last["done"], last["failed"], last["total"]) == (4, 5, TOTAL)


@pytest.mark.parametrize("scenario", ["dead", "never works"])
def test_an_engine_that_fails_is_not_taken_for_poison(stack: Stack, tmp_path: Path, scenario: str) -> None:
    ended = attempt(stack, tmp_path, scenario)
    assert (ended.code, ended.files) == (1, set())
    assert ended.told("sample-failed") == []
    assert ended.said.rstrip().splitlines()[-1] == "RuntimeError: Worker failed with error 'out of luck'"
    assert "CLOSED" in ended.said


def test_a_stop_finishes_the_batch_in_hand(stack: Stack, tmp_path: Path) -> None:
    ended = attempt(stack, tmp_path, "stopped in a batch")
    assert (ended.code, ended.files) == (143, files(0, 1, 2, 3, 4, 5)), ended.said
    assert ended.told("progress")[-1]["done"] == 6
    assert "CLOSED" in ended.said


def test_a_stop_while_loading_is_obeyed_at_once(stack: Stack, tmp_path: Path) -> None:
    ended = attempt(stack, tmp_path, "stopped while loading")
    assert (ended.code, ended.files) == (143, set())
    assert "CLOSED" in ended.said
    assert "Traceback" not in ended.said


def test_a_disk_that_refuses_ends_the_attempt_and_leaves_no_part(stack: Stack, tmp_path: Path) -> None:
    ended = attempt(stack, tmp_path, "disk refuses")
    assert (ended.code, ended.files) == (1, set())
    assert "File too large" in ended.said
    assert ended.told("sample-failed") == []
