"""A run that does a part of the dataset: what it counts, what it leaves alone, what verify says of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote.paths import Output
from remote.results import manifest
from remote.schema import CensusAnswer, CensusRequest, Dealt, Samples, VerifyAnswer, VerifyRequest
from tests.payload.pretended import job

if TYPE_CHECKING:
    from remote.schema import Exit, Job
    from tests.running import Lab

PROMPTS = [[number, number + 1] for number in range(1, 21)]


def extract(lab: Lab, work: Job, shard: str | None) -> Exit:
    answer = lab.launch(work, shard=shard)
    assert (answer.outcome, answer.message) == ("started", "")
    return lab.ended(lab.run(answer.run or ""))


def verify(lab: Lab, work: Job, shard: str | None = None) -> VerifyAnswer:
    request = VerifyRequest(job=work, shard=shard)
    return lab.host.call("verify", request, VerifyAnswer, bundle=lab.bundle, deadline=30.0)


def files(lab: Lab) -> set[int]:
    return {int(path.stem.removeprefix("data_")) for path in lab.output.glob("data_*.pt")}


def test_a_run_does_its_shard_and_counts_nothing_else(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    ended = extract(lab, work, "0-4,17")
    assert (ended.phase, ended.samples) == ("done", Samples(total=6, done=6))
    assert files(lab) == {0, 1, 2, 3, 4, 17}
    (seen,) = lab.status()
    assert (seen.shard, seen.samples.total, seen.tokens_total) == ("0-4,17", 6, 12)
    part, whole = verify(lab, work, "0-4,17"), verify(lab, work)
    assert (part.total, part.valid, part.whole, part.ranges, part.findings) == (6, 6, 20, "0-4,17", ())
    assert (whole.total, whole.valid, whole.missing, whole.whole) == (20, 6, 14, 20)
    assert (whole.ranges, whole.damaged_ranges) == ("0-4,17", "")
    assert len(whole.dataset) == 64
    assert part.dataset == ""


def test_the_samples_of_another_shard_are_left_alone(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, "0-4")
    before = {path.name: path.stat().st_ino for path in lab.output.glob("data_*.pt")}
    (lab.output / "data_99.pt").write_bytes(b"of no sample of this dataset")
    assert extract(lab, work, "3-9").samples == Samples(total=7, done=7)
    after = {path.name: path.stat().st_ino for path in lab.output.glob("data_*.pt")}
    assert before.items() <= after.items()
    assert files(lab) == set(range(10))
    assert (lab.output / "data_99.pt.extra").exists()


def test_the_whole_is_done_after_its_parts(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, "5-9")
    assert extract(lab, work, None).samples == Samples(total=20, done=20)
    assert verify(lab, work).ranges == "0-19"


def test_damage_in_another_shard_is_found_by_its_own_verify_alone(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, "0-9")
    sample = lab.output / "data_3.pt"
    sample.write_bytes(b"x" * sample.stat().st_size)
    assert verify(lab, work, "4-9").damaged == 0
    assert verify(lab, work, "0-3").damaged_ranges == "3"


@pytest.mark.parametrize(
    ("shard", "said"),
    [("5-25", "holds 20 samples, sample 25 was dealt"), ("3-1", "ascending"), ("all", "expected ranges")],
)
def test_a_shard_that_is_none_of_this_dataset_ends_the_run(lab: Lab, shard: str, said: str) -> None:
    work = job(lab, PROMPTS)
    ended = extract(lab, work, shard)
    assert (ended.phase, ended.code) == ("failed", 2)
    assert said in Path(lab.run(lab.status()[0].run).log).read_text()
    assert said in verify(lab, work, shard).findings[0].message


def test_an_empty_shard_is_done_at_once(lab: Lab) -> None:
    assert extract(lab, job(lab, PROMPTS), "").samples == Samples()
    assert files(lab) == set()


def dealt(lab: Lab, work: Job) -> Dealt:
    seen = lab.host.call("census", CensusRequest(job=work), CensusAnswer, bundle=lab.bundle, deadline=30.0)
    return Dealt(dataset=seen.dataset, total=seen.total, model=seen.model)


@pytest.mark.parametrize("now", [PROMPTS[::-1], [*PROMPTS[:-1], [7]], PROMPTS[:-1], [[9, 9], *PROMPTS]])
def test_a_dataset_that_has_changed_since_the_deal_is_not_begun(lab: Lab, now: list[list[int]]) -> None:
    """Its samples would be valid by this host's own word, and the whole a mixture of two datasets."""
    before = dealt(lab, job(lab, PROMPTS))
    answer = lab.launch(job(lab, now), shard="0-4", dealt=before)
    ended = lab.ended(lab.run(answer.run or ""))
    assert (ended.phase, ended.cause) == ("failed", "unusable-job")
    assert "are not those that this host's part was dealt from" in (ended.root_line or "")
    assert files(lab) == set()


@pytest.mark.parametrize("change", ["layers", "tokens"])
def test_files_beside_the_shard_that_are_not_of_this_job_any_more_are_put_aside(lab: Lab, change: str) -> None:
    """The trainer takes every file of the folder, and the round that made them is over: they would be mixed in."""
    work = job(lab, PROMPTS)
    extract(lab, work, "0-9")
    if change == "layers":
        work = dataclasses.replace(work, layers=(2, 4))
    else:
        work = job(lab, [*PROMPTS[:2], [8, 8], *PROMPTS[3:6], [9], *PROMPTS[7:]])
    answer = lab.launch(work, shard="0-4", dealt=dealt(lab, work))
    assert lab.ended(lab.run(answer.run or "")).samples == Samples(total=5, done=5)
    stay = set(range(5)) if change == "layers" else set(range(10)) - {6}
    assert files(lab) == stay
    assert verify(lab, work).damaged == 0
    assert (lab.output / "data_6.pt.extra").exists()
    assert manifest.read(Output(PurePosixPath(lab.output))).entries.keys() == stay


def test_samples_added_behind_the_last_one_harm_no_shard(lab: Lab) -> None:
    before = dealt(lab, job(lab, PROMPTS))
    answer = lab.launch(job(lab, [*PROMPTS, [3, 4]]), shard="0-4", dealt=before)
    assert lab.ended(lab.run(answer.run or "")).phase == "done"


def test_another_model_than_the_one_of_the_deal_is_not_loaded(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    Path(work.model).mkdir(exist_ok=True)
    config = Path(work.model) / "config.json"
    config.write_text('{"vocab_size": 1000}')
    before = dealt(lab, work)
    assert before.model
    config.write_text('{"vocab_size": 1001}')
    ended = lab.ended(lab.run(lab.launch(work, shard="0-4", dealt=before).run or ""))
    assert (ended.phase, ended.cause) == ("failed", "unusable-job")
    assert "is another model than the one that" in (ended.root_line or "")
