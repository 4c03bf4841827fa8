"""The census of a host: what stands, what runs, whether it is the same dataset; what was counted once is kept."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import threading
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import ranges
from remote.paths import Output
from remote.prompts import census_child
from remote.schema import CensusAnswer, CensusRequest
from tests.payload.pretended import job
from tests.running import BARE, until

if TYPE_CHECKING:
    from remote.schema import Job
    from tests.running import Lab

PROMPTS = [[number] * (1 + number % 5) for number in range(1, 21)]


def census(lab: Lab, work: Job) -> CensusAnswer:
    answer = lab.host.call("census", CensusRequest(job=work), CensusAnswer, bundle=lab.bundle, deadline=60.0)
    assert answer.trouble == ""
    return answer


def extract(lab: Lab, work: Job, shard: str | None) -> None:
    lab.ended(lab.run(lab.launch(work, shard=shard).run or ""))


def test_an_empty_host_has_nothing_but_the_dataset(lab: Lab) -> None:
    seen = census(lab, job(lab, PROMPTS))
    assert (seen.total, ranges.unpack(seen.lengths).tolist()) == (20, [len(prompt) for prompt in PROMPTS])
    assert (seen.standing, seen.working, seen.run, seen.busy) == ("", "", None, "")
    assert (seen.tokens_per_second, seen.load_seconds) == (None, None)
    assert len(seen.dataset) == 64
    assert len(seen.folder) == 32


def test_what_stands_is_what_an_attempt_would_take_for_done(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, "0-4,10-12")
    (lab.output / "data_11.pt").unlink()
    (lab.output / "data_2.pt").write_bytes(b"short")
    assert census(lab, work).standing == "0-1,3-4,10,12"
    assert census(lab, dataclasses.replace(work, layers=(2, 4))).standing == ""


def test_another_dataset_is_another_and_nothing_of_it_stands(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, None)
    before = census(lab, work)
    after = census(lab, job(lab, [*PROMPTS[:3], [7, 7, 7], *PROMPTS[4:]]))
    assert before.dataset != after.dataset
    assert (before.standing, after.standing) == ("0-19", "0-2,4-19")


def test_a_living_run_is_told_with_its_shard(lab: Lab) -> None:
    work = job(lab, PROMPTS, env={"SECONDS_EACH": "600"})
    run = lab.run(lab.launch(work, shard="3-7").run or "")
    until(lambda: Path(run.log).exists() and "loaded" in Path(run.log).read_text(), "the load")
    seen = census(lab, work)
    assert (seen.run, seen.working, seen.busy) == (run.id, "3-7", "")
    other = census(lab, dataclasses.replace(work, max_model_len=512))
    assert "is of another job or dataset" in other.busy
    assert other.working == ""
    elsewhere = census(lab, dataclasses.replace(work, workdir=str(lab.root / "elsewhere")))
    assert (elsewhere.run, elsewhere.working) == (None, "3-7")
    assert f"of the workdir {lab.workdir} writes to this output folder" in elsewhere.busy
    lab.stop(run.id)
    lab.ended(run)
    assert (census(lab, work).run, census(lab, work).working) == (None, "")


def test_a_dataset_is_counted_once(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    (lab.root / "model").mkdir()
    first = census(lab, work)
    (kept,) = (Path(lab.workdir) / "cache" / "census").iterdir()
    written = kept.stat().st_mtime_ns
    assert census(lab, work) == first
    assert kept.stat().st_mtime_ns == written
    kept.write_bytes(kept.read_bytes()[:-3])  # a torn one is counted anew
    assert census(lab, work) == first
    assert kept.stat().st_mtime_ns != written


@pytest.mark.parametrize("change", ["dataset", "tokenizer", "length", "environment"])
def test_what_a_count_follows_from_makes_another(lab: Lab, change: str) -> None:
    work = job(lab, PROMPTS)
    model = lab.root / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text("{}")
    census(lab, work)
    folder = Path(lab.workdir) / "cache" / "census"
    if change == "dataset":
        job(lab, PROMPTS[::-1])
    elif change == "tokenizer":
        (model / "tokenizer.json").write_text('{"other": 1}')
    elif change == "length":
        work = dataclasses.replace(work, max_model_len=4)
    else:
        work = dataclasses.replace(work, env={**work.env, "TOKENIZERS": "1"})
    again = census(lab, work)
    assert len(list(folder.iterdir())) == 2
    assert max(ranges.unpack(again.lengths)) == (3 if change == "length" else 5)


def test_weights_that_change_are_no_matter_of_lengths(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    (lab.root / "model").mkdir()
    census(lab, work)
    (lab.root / "model" / "model.safetensors").write_bytes(b"weights")
    census(lab, work)
    assert len(list((Path(lab.workdir) / "cache" / "census").iterdir())) == 1


def test_a_folder_is_known_by_one_id_whoever_comes_first(tmp_path: Path) -> None:
    output = Output(PurePosixPath(tmp_path))
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.append(census_child.identity(output))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [".prudent-gate.id"]


@pytest.mark.parametrize("torn", ["", "abc", "x" * 32, "\x00" * 32])
def test_an_id_that_is_none_does_not_make_one_folder_of_two(tmp_path: Path, torn: str) -> None:
    folders = [Output(PurePosixPath(tmp_path / name)) for name in "ab"]
    for output in folders:
        Path(output.root).mkdir()
        Path(output.identity).write_text(torn)
    ids = [census_child.identity(output) for output in folders]
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
    assert ids[0] != ids[1]
    assert ids == [census_child.identity(output) for output in folders]


def test_a_file_system_without_hard_links_takes_an_id_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    output = Output(PurePosixPath(tmp_path))
    assert census_child.identity(output) == census_child.identity(output) != ""
    assert [path.name for path in tmp_path.iterdir()] == [".prudent-gate.id"]


def test_what_stands_in_a_folder_that_takes_nothing_more_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, one that is read-only after an error: others must not do again what stands there."""
    work = job(lab, PROMPTS)
    extract(lab, work, "0-4")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(census_child, "_make", full)
    seen = census_child.taken(work)
    assert (seen.trouble, seen.standing) == ("", "0-4")
    assert seen.busy == f"its output folder {work.output} cannot be written (No space left on device)"
    assert seen.folder != census_child.taken(work).folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dataset": "/no/such.jsonl"}, "cannot be read"),
        ({"python": "/no/such/python"}, "cannot be started"),
        ({"python": "/bin/false"}, "ended with status 1 and no answer"),
        ({"output": "/proc/nowhere"}, "the output folder /proc/nowhere cannot be used"),
        ({"engine": "command"}, "has no adapter"),
    ],
)
def test_what_keeps_a_host_from_a_census_is_its_trouble(lab: Lab, changes: dict[str, str], said: str) -> None:
    work = dataclasses.replace(job(lab, PROMPTS), **changes)  # type: ignore[arg-type]
    answer = lab.host.call("census", CensusRequest(job=work), CensusAnswer, bundle=BARE.id, deadline=60.0)
    assert said in answer.trouble
    assert answer.total == 0


def test_room_is_told_in_tokens(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    assert census(lab, work).room is None  # nothing is known of the model
    (lab.root / "model").mkdir()
    (lab.root / "model" / "config.json").write_text(json.dumps({"hidden_size": 1000, "dtype": "bfloat16"}))
    mean = sum(len(prompt) for prompt in PROMPTS) / len(PROMPTS)
    each = 2 * 1000 * 2 + 16 + 4096 / mean  # two layers, two bytes; a frame for each sample
    free = shutil.disk_usage(lab.root).free
    assert census(lab, work).room == pytest.approx(free * 0.9 / each, rel=0.05)


def test_speeds_are_those_of_earlier_runs(lab: Lab) -> None:
    work = job(lab, PROMPTS)
    extract(lab, work, "0")
    (run,) = (Path(lab.workdir) / "runs").iterdir()
    told = [
        {"time": 100.0, "event": "phase", "phase": "loading"},
        {"time": 160.0, "event": "phase", "phase": "extracting"},
        {"time": 161.0, "event": "progress", "tokens": 0},
        {"time": 171.0, "event": "progress", "tokens": 5000},
    ]
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in told))
    os.utime(run)
    seen = census(lab, work)
    assert (seen.tokens_per_second, seen.load_seconds) == (500.0, pytest.approx(60.0))
