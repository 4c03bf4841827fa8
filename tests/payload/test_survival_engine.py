"""Runs of an engine of ours whose libraries are pretended: memory, poison samples, damaged files, another model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remote.schema import Retry, Samples, VerifyAnswer, VerifyRequest
from tests.payload.pretended import POISON, job
from tests.running import PATIENCE, until

if TYPE_CHECKING:
    from remote.paths import Run
    from remote.schema import Job
    from tests.running import Lab

PROMPTS = [[number, number + 1] for number in range(1, 21)]


def events(run: Run, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(run.events).read_text().splitlines()]
    return [event for event in found if event["event"] == name]


def extract(lab: Lab, work: Job) -> Run:
    answer = lab.launch(work)
    assert (answer.outcome, answer.message) == ("started", "")
    run = lab.run(answer.run or "")
    lab.ended(run)
    return run


def batches(run: Run) -> list[int]:
    return [int(line.split()[1]) for line in Path(run.log).read_text().splitlines() if line.startswith("BATCH")]


def verify(lab: Lab, work: Job) -> VerifyAnswer:
    return lab.host.call("verify", VerifyRequest(job=work), VerifyAnswer, bundle=lab.bundle, deadline=30.0)


def test_memory_that_runs_out_on_a_batch_halves_it_and_the_engine_goes_on(lab: Lab) -> None:
    work = job(lab, PROMPTS, env={"MEMORY": "3"})
    run = extract(lab, work)
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.samples) == ("done", 1, Samples(total=20, done=20))
    assert batches(run) == [8, 4, 2, 2, 4, 2, 2, *[2] * 6]
    assert [event["size"] for event in events(run, "batch-halved")] == [4, 2]
    assert verify(lab, work).valid == 20


def test_an_engine_that_dies_of_it_is_started_again_with_half_a_batch(lab: Lab) -> None:
    run = extract(lab, job(lab, PROMPTS, env={"MEMORY": "1", "DIES": "1"}, retry=Retry(transient=0, backoff=0.05)))
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.samples.done) == ("done", 4, 20)
    assert batches(run) == [8, 4, 2, *[1] * 20]
    assert [event["size"] for event in events(run, "batch-halved")] == [4, 2, 1]
    assert {event["cause"] for event in events(run, "retry")} == {"gpu-out-of-memory"}


def test_a_batch_of_one_cannot_be_halved(lab: Lab) -> None:
    run = extract(lab, job(lab, PROMPTS, env={"MEMORY": "0", "DIES": "1"}, batch_size=2))
    ended = lab.ended(run)
    assert (ended.phase, ended.attempts, ended.cause, ended.kind) == ("failed", 2, "gpu-out-of-memory", "fatal")
    assert "CUDA out of memory" in (ended.root_line or "")
    assert "batch_size" in ended.advice


def test_memory_that_the_load_takes_is_no_matter_of_batches(lab: Lab) -> None:
    run = extract(lab, job(lab, PROMPTS, env={"MEMORY_AT_LOAD": "1"}))
    ended = lab.ended(run)
    assert (ended.attempts, ended.cause, ended.kind) == (1, "gpu-out-of-memory", "fatal")
    assert events(run, "batch-halved") == []


def test_a_poison_sample_fails_alone_and_the_exit_says_so(lab: Lab) -> None:
    prompts = [*PROMPTS[:5], [POISON], *PROMPTS[5:]]
    run = extract(lab, job(lab, prompts))
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.cause) == ("failed", 10, "samples-failed")
    assert ended.samples == Samples(total=21, done=20, failed=1)
    (told,) = events(run, "sample-failed")
    assert (told["index"], told["cause"]) == (5, "data.jsonl:6: ValueError: this prompt cannot be")


def test_too_many_poison_samples_end_the_run(lab: Lab) -> None:
    prompts = [[3, POISON], PROMPTS[0]] * 8
    work = job(lab, prompts, batch_size=4, retry=Retry(max_failed_samples=3, backoff=0.05))
    run = extract(lab, work)
    ended = lab.ended(run)
    assert (ended.phase, ended.code, ended.attempts, ended.cause) == ("failed", 11, 1, "too-many-failed")
    assert ended.root_line == "4 of 16 samples failed, 3 may"
    assert ended.samples == Samples(total=16, done=4, failed=4)  # the batch in hand was written
    exactly = dataclasses.replace(work, retry=Retry(max_failed_samples=8, backoff=0.05))
    assert lab.ended(extract(lab, exactly)).cause == "samples-failed"


def spoil(lab: Lab) -> set[int]:
    """Damage files in every way; gives the samples that must be computed again."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[data.index(b".0") - 1] ^= 1  # a digit of a hidden state: the file still loads
        path.write_bytes(data)

    out = lab.output
    flip(out / "data_1.pt")
    os.truncate(out / "data_2.pt", 100)
    (out / "data_3.pt").unlink()
    (out / "data_4.pt").write_bytes((out / "data_5.pt").read_bytes())
    size = (out / "data_6.pt").stat().st_size
    (out / "data_6.pt").write_bytes(b"\0" * size)
    (out / "data_77.pt").write_bytes(b"not of this dataset")
    with (out / "manifest.jsonl").open("rb+") as file:
        file.truncate(file.seek(0, 2) - 30)  # the line of the end in order, and half of the line of sample 19
    return {1, 2, 3, 4, 6}


def test_verify_finds_and_extract_repairs_exactly_what_is_damaged(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work)
    assert verify(lab, work).findings == ()
    sound = {path.name: path.stat().st_ino for path in lab.output.glob("data_*.pt")}
    spoilt = spoil(lab)
    found = verify(lab, work)
    assert (found.valid, found.missing, found.damaged, found.extra) == (14, 1, 5, 1)
    named = {int(Path(finding.file or "").stem.removeprefix("data_")) for finding in found.findings}
    assert named == {*spoilt, 19, 77}
    run = extract(lab, work)
    assert sum(batches(run)) == len(spoilt)
    again = verify(lab, work)
    assert (again.valid, again.findings) == (20, ())
    for path in lab.output.glob("data_*.pt"):
        kept = sound[path.name] == path.stat().st_ino
        assert kept == (int(path.stem.removeprefix("data_")) not in spoilt), path.name


def test_a_flipped_bit_that_only_verify_can_see_is_repaired_by_the_next_extract(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work)
    path = lab.output / "data_1.pt"
    data = bytearray(path.read_bytes())
    data[data.index(b".0") - 1] ^= 1
    path.write_bytes(data)
    assert batches(extract(lab, work)) == []  # an end in order vouches for it: nothing is hashed
    assert verify(lab, work).damaged == 1
    assert batches(extract(lab, work)) == [1]
    assert verify(lab, work).valid == 20


def test_a_flipped_bit_behind_a_lost_line_is_seen_and_computed_again(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work)
    manifest, path = lab.output / "manifest.jsonl", lab.output / "data_1.pt"
    lines = [line for line in manifest.read_text().splitlines() if json.loads(line).get("index") not in {1, 2}]
    manifest.write_text("".join(line + "\n" for line in lines))
    data = bytearray(path.read_bytes())
    data[data.index(b".0") - 1] ^= 1  # loads, and is finite, and has every token: only the archive's checksum tells
    path.write_bytes(data)
    assert batches(extract(lab, work)) == [1]  # and sample 2 is adopted
    assert verify(lab, work).valid == 20


def test_all_zero_states_are_repaired_even_where_the_manifest_vouches_for_them(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work)
    path, manifest = lab.output / "data_1.pt", lab.output / "manifest.jsonl"
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("archive/data.json"))
    for state in document["hidden_states"]:
        state["values"] = [[0.0] * 4 for _ in state["values"]]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.json", json.dumps(document))
    lines = [json.loads(line) for line in manifest.read_text().splitlines()]
    for entry in lines:
        if entry.get("index") == 1:
            entry.update(sha256=hashlib.sha256(path.read_bytes()).hexdigest(), size=path.stat().st_size)
    manifest.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    (finding,) = verify(lab, work).findings
    assert "all zero" in finding.message
    assert batches(extract(lab, work)) == [1]
    assert verify(lab, work).valid == 20


@pytest.mark.parametrize("change", ["config.json", "model.safetensors"])
def test_another_model_is_refused_with_a_remedy_and_nothing_is_touched(lab: Lab, change: str) -> None:
    model = lab.root / "model"
    model.mkdir()
    (model / "config.json").write_text('{"vocab_size": 1000}')
    (model / "model.safetensors").write_bytes(b"weights")
    work = job(lab, PROMPTS)
    extract(lab, work)
    before = {path.name: path.stat().st_mtime_ns for path in lab.output.glob("data_*.pt")}
    data = (model / change).read_bytes()
    (model / change).write_bytes(data.replace(b"s", b"z", 1) if change.endswith("tensors") else data + b" ")
    ended = lab.ended(extract(lab, work))
    assert (ended.phase, ended.cause, ended.attempts) == ("failed", "other-model", 1)
    assert "holds 20 samples of another model" in (ended.root_line or "")
    assert "choose another `output`" in (ended.root_line or "")
    assert {path.name: path.stat().st_mtime_ns for path in lab.output.glob("data_*.pt")} == before
    found = verify(lab, work)
    assert (found.valid, found.damaged) == (0, 20)
    assert "another model" in found.findings[0].message
    (model / change).write_bytes(data)
    assert verify(lab, work).valid == 20


def test_a_stop_lets_the_batch_in_hand_be_written_and_extract_does_the_rest(lab: Lab) -> None:
    work = job(lab, PROMPTS, env={"HOLDS": "2"}, batch_size=4)
    answer = lab.launch(work)
    run = lab.run(answer.run or "")
    until(lambda: batches(run)[1:], "the second batch in hand")
    assert lab.stop(run.id, grace=PATIENCE).outcome == "stopped"
    ended = lab.ended(run)
    assert (ended.phase, ended.code) == ("stopped", 143)
    begun = sum(batches(run))
    assert (ended.samples.done, begun) == (8, 8)
    assert {path.name for path in lab.output.glob("*.pt")} == {f"data_{index}.pt" for index in range(begun)}
    found = verify(lab, work)
    assert (found.valid, found.damaged) == (begun, 0)
    again = extract(lab, dataclasses.replace(work, env={**work.env, "HOLDS": ""}))
    assert sum(batches(again)) == len(PROMPTS) - begun
    assert verify(lab, work).valid == len(PROMPTS)
