"""Samples that end the engine: found, given up and told, and all others done, whatever it takes."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote.host import processes
from remote.run import hand, suspects
from remote.schema import Retry, Samples
from tests.chaos import pretend
from tests.running import Lab, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remote.paths import Run
    from remote.schema import Exit, Job
    from tests.chaos.pretend import Pretence

COUNT = 12
RETRY = Retry(transient=3, start_line=30.0, progress_line=30.0, backoff=0.05)


class Place:
    """A pretended host with a dataset of samples that begin with their number plus 100."""

    def __init__(self, root: Path, pretence: Pretence) -> None:
        (root / "disk").mkdir()
        dice = random.Random(1)  # noqa: S311 - a dataset, no secret
        self.samples = pretend.dataset(COUNT, dice)
        for sample in self.samples:
            sample.tokens[0] = 100 + sample.index
        pretence.furnish(root / "disk")
        pretend.write_dataset(root / "data.jsonl", self.samples)
        self.root = root
        self.lab = Lab(root / "disk", python=str(pretence.python))

    def job(self, *deadly: int, how: str = "worker", seconds: float = 0.0, **changes: Any) -> Job:
        environment = {
            "STANDIN_KILLS": " ".join(str(100 + index) for index in deadly),
            "STANDIN_HOW": how,
            "STANDIN_SECONDS": str(seconds),
        }
        made = pretend.job(self.root / "disk", self.lab.python, dataset=str(self.root / "data.jsonl"), retry=RETRY,
                           env=environment)  # fmt: skip
        return dataclasses.replace(made, **changes)

    def extract(self, job: Job) -> tuple[Run, Exit]:
        answer = self.lab.launch(job)
        assert (answer.outcome, answer.message) == ("started", "")
        run = self.lab.run(answer.run or "")
        return run, self.lab.ended(run)

    def standing(self) -> list[int]:
        return [sample.index for sample in self.samples if sample.stands(Path(self.lab.output))]


@pytest.fixture
def place(tmp_path: Path, pretence: Pretence) -> Iterator[Place]:
    made = Place(tmp_path, pretence)
    yield made
    left = made.lab.clean_up()
    assert not left, f"left running: {left}"


def events(run: Run, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in found if event["event"] == name]


@pytest.mark.parametrize(
    ("deadly", "size"),
    [((7,), 3), ((0,), 3), ((11,), 3), ((4,), 1), ((0, 5, 10), 4), ((6, 7), 4), ((9, 10, 11), 3)],
)
def test_a_sample_that_ends_the_engine_is_given_up_and_all_others_are_done(
    place: Place, deadly: tuple[int, ...], size: int
) -> None:
    run, ended = place.extract(place.job(*deadly, batch_size=size))
    assert (ended.phase, ended.code, ended.cause) == ("failed", 10, "samples-failed")
    assert ended.samples == Samples(total=COUNT, done=COUNT - len(deadly), failed=len(deadly))
    assert place.standing() == [index for index in range(COUNT) if index not in deadly]
    assert sorted(suspects.read(run).failed) == list(deadly)
    told = {event["index"]: event["cause"] for event in events(run, "sample-failed")}
    assert sorted(told) == list(deadly)
    assert all("twice, at last with it alone (engine-died: " in cause for cause in told.values())
    assert ended.root_line == f"{len(deadly)} of {COUNT} samples failed, all others are done"


@pytest.mark.parametrize(
    ("how", "cause"),
    [("self", "sigsegv"), ("hang", "hang: no progress for 2 s"), ("memory", "gpu-out-of-memory: ")],
)
def test_in_whatever_way_it_ends_the_engine(place: Place, how: str, cause: str) -> None:
    retry = dataclasses.replace(RETRY, progress_line=2.0)
    run, ended = place.extract(place.job(7, how=how, retry=retry))
    assert (ended.phase, ended.code) == ("failed", 10)
    assert ended.samples == Samples(total=COUNT, done=COUNT - 1, failed=1)
    ((index, why),) = suspects.read(run).failed.items()
    assert index == 7
    assert cause in why


def test_what_was_in_hand_when_all_were_killed_is_taken_last_by_the_next_run(place: Place) -> None:
    """It may have been a sample that took the whole host's memory."""
    answer = place.lab.launch(place.job(seconds=0.4))
    lost = place.lab.run(answer.run or "")
    held = until(lambda: 4 in hand.held(lost) and hand.held(lost))
    owner = place.lab.state(lost).pid
    for process in processes.started_by(owner):
        processes.send(process, signal.SIGSTOP)  # so that the attempt does not finish its batch when its owner dies
    for process in processes.started_by(owner):
        processes.send(process, signal.SIGKILL)
    place.lab.kill_supervisor(lost)
    assert set(held) == set(hand.held(lost))
    run, ended = place.extract(place.job())
    assert (ended.phase, ended.samples) == ("done", Samples(total=COUNT, done=COUNT))
    assert suspects.read(run).samples >= set(held)
    lines = (Path(place.lab.output) / "manifest.jsonl").read_text().splitlines()
    order = [index for line in lines if (index := json.loads(line).get("index")) is not None]
    assert order[-len(held) :] == list(held)
    assert sorted(order) == list(range(COUNT))


def test_a_single_sample_that_is_all_there_is_to_do_is_given_up_too(place: Place) -> None:
    place.extract(place.job())
    (place.lab.output / "data_5.pt").unlink()
    _, ended = place.extract(place.job(5))
    assert (ended.code, ended.attempts) == (10, 3)
    assert ended.samples == Samples(total=COUNT, done=COUNT - 1, failed=1)


def test_the_next_extract_tries_again_what_was_given_up(place: Place) -> None:
    place.extract(place.job(7))
    _, ended = place.extract(place.job())
    assert (ended.phase, ended.samples) == ("done", Samples(total=COUNT, done=COUNT))
    assert pretend.complaints(Path(place.lab.output), place.samples) == []


def test_more_deadly_samples_than_the_job_allows_end_the_run(place: Place) -> None:
    retry = dataclasses.replace(RETRY, max_failed_samples=1)
    _, ended = place.extract(place.job(2, 8, retry=retry))
    assert (ended.phase, ended.code, ended.cause) == ("failed", 11, "too-many-failed")
    assert ended.root_line == f"2 of {COUNT} samples failed, 1 may"
    assert {0, 1, 3, 4, 5}.issubset(place.standing())


def test_an_engine_that_dies_of_everything_is_not_taken_for_poisoned(place: Place) -> None:
    run, ended = place.extract(place.job(*range(COUNT)))
    assert (ended.phase, ended.cause, ended.attempts) == ("failed", "engine-died", 2)
    assert suspects.read(run).failed == {}
    assert ended.samples == Samples(total=COUNT)


def test_an_engine_that_begins_to_die_of_everything_ends_the_run_soon(place: Place) -> None:
    run, ended = place.extract(place.job(*range(3, COUNT), batch_size=3))
    assert (ended.phase, ended.kind, ended.cause) == ("failed", "fatal", "engine-died")
    assert "it is the engine or the host" in ended.advice
    assert ended.attempts == suspects.PROVEN + 1
    assert place.standing() == [0, 1, 2]
    assert suspects.read(run).failed == {}
