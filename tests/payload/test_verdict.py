"""Verdicts kept on the host, asked of the payload under another interpreter."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from remote import schema, verdict
from remote.paths import Workdir

if TYPE_CHECKING:
    from conftest import Stage

PASS = schema.Verdict(
    fingerprint="a" * 64,
    bundle="b",
    verdict="pass",
    level="signature",
    decided=1.0,
    checks=(schema.Check(id="reach", status="pass", findings=(schema.Finding(rule="r", message="m"),)),),
    basis={"job": "j", "package vllm": "0.16.0"},
)


def ask(stage: Stage, bundle: str = "b", **job: str) -> schema.VerdictAnswer:
    request = schema.VerdictRequest(job=stage.job(**job), bundle=bundle)
    return stage.call(stage.push(None), "verdict", request, schema.VerdictAnswer)


def store(stage: Stage, made: schema.Verdict) -> Path:
    request = schema.VerdictRequest(job=stage.job(), bundle=made.bundle, store=made)
    answer = stage.call(stage.push(None), "verdict", request, schema.VerdictAnswer)
    assert answer.verdict == made
    return Path(Workdir(PurePosixPath(stage.job().workdir)).verdict(made.fingerprint))


def present(stage: Stage, bundle: str = "b") -> str:
    request = schema.FactsRequest(job=stage.job(), bundle=bundle)
    return stage.call(stage.push(None), "facts", request, schema.HostFacts).fingerprint


def test_a_host_without_memory_says_only_what_it_is(stage: Stage) -> None:
    answer = ask(stage)
    assert answer == schema.VerdictAnswer(fingerprint=present(stage))


def test_a_verdict_comes_back_whole_and_is_its_owners_alone(stage: Stage) -> None:
    made = replace(PASS, fingerprint=present(stage))
    path = store(stage, made)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert ask(stage).verdict == made


def test_another_bundle_or_environment_has_no_verdict_but_a_previous_one(stage: Stage) -> None:
    made = replace(PASS, fingerprint=present(stage))
    store(stage, made)
    other = ask(stage, bundle="c")
    assert (other.verdict, other.previous) == (None, made)
    stage.write({"vllm-0.17.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.17.0\n"})
    changed = ask(stage)
    assert changed.fingerprint != made.fingerprint
    assert (changed.verdict, changed.previous) == (None, made)


def test_what_failed_or_was_another_jobs_is_no_previous_pass(stage: Stage) -> None:
    store(stage, replace(PASS, fingerprint="1" * 64, verdict="fail"))
    store(stage, replace(PASS, fingerprint="2" * 64, basis={"job": "another"}))
    assert ask(stage).previous is None


def test_a_pass_is_kept_only_where_what_it_rests_on_is_there_still(stage: Stage) -> None:
    made = replace(PASS, fingerprint=present(stage))
    request = schema.VerdictRequest(job=stage.job(), bundle=made.bundle, store=made, still=True)
    stage.write({"vllm-0.17.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.17.0\n"})
    refused = stage.call(stage.push(None), "verdict", request, schema.VerdictAnswer)
    assert refused.fingerprint == present(stage) != made.fingerprint
    assert (refused.verdict, refused.basis["package vllm"]) == (None, "0.17.0")
    assert not Path(Workdir(PurePosixPath(stage.job().workdir)).verdicts).exists()

    now = replace(made, fingerprint=present(stage))
    kept = stage.call(stage.push(None), "verdict", replace(request, store=now), schema.VerdictAnswer)
    assert (kept.verdict, ask(stage).verdict) == (now, now)


def test_the_newest_pass_is_the_previous_one(stage: Stage) -> None:
    for number, age in (("1", 300), ("2", 100), ("3", 200)):
        path = store(stage, replace(PASS, fingerprint=number * 64))
        os.utime(path, (10**9 - age, 10**9 - age))
    previous = ask(stage).previous
    assert previous is not None
    assert previous.fingerprint == "2" * 64


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": 99}', b"\xff", None])
def test_a_damaged_verdict_is_none(stage: Stage, content: bytes | None) -> None:
    path = store(stage, replace(PASS, fingerprint=present(stage)))
    path.write_bytes(content if content is not None else path.read_bytes().replace(path.stem.encode(), b"0" * 64))
    assert ask(stage).verdict is None


@pytest.mark.parametrize("name", ["../../escape", "", "a" * 200, "A" * 64, "a/b", "a\x00"])
def test_a_fingerprint_names_no_other_place(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no fingerprint"):
        verdict.store(tmp_path / "verdicts", replace(PASS, fingerprint=name))
    assert list(tmp_path.rglob("*.json")) == []


def test_the_verdict_just_stored_stays_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    for number in range(verdict.KEPT):
        verdict.store(tmp_path, replace(PASS, fingerprint=f"{number:064x}"))
        os.utime(tmp_path / f"{number:064x}.json", (2**33 + number, 2**33 + number))
    verdict.store(tmp_path, PASS)
    assert verdict.read(tmp_path, PASS.fingerprint) == PASS
    assert len(list(tmp_path.iterdir())) == verdict.KEPT
    assert not (tmp_path / f"{0:064x}.json").exists()


def test_the_oldest_verdicts_make_room(tmp_path: Path) -> None:
    for number in range(verdict.KEPT + 5):
        verdict.store(tmp_path, replace(PASS, fingerprint=f"{number:064x}"))
        os.utime(tmp_path / f"{number:064x}.json", (number, number))
    kept = {int(path.stem, 16) for path in tmp_path.iterdir()}
    assert len(kept) == verdict.KEPT
    assert verdict.KEPT + 4 in kept
    assert 0 not in kept
