from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from remote import verify
from remote.schema import Job, VerifyAnswer, VerifyRequest

if TYPE_CHECKING:
    from pathlib import Path


def answer(tmp_path: Path, *, python: str, **of_the_job: str) -> VerifyAnswer:
    settings = {"engine": "speculators", "dataset": str(tmp_path / "none.jsonl"), **of_the_job}
    job = Job(name="j", python=python, workdir=str(tmp_path), output=str(tmp_path / "o"), **settings)  # type: ignore[arg-type]
    return verify.answer(VerifyRequest(job=job, deadline=60))


@pytest.mark.parametrize("python", ["/no/such/python", "/etc/passwd", "/bin/false"])
def test_a_python_that_cannot_run_it_is_a_finding(tmp_path: Path, python: str) -> None:
    (finding,) = answer(tmp_path, python=python).findings
    assert (finding.rule, finding.severity) == ("verify-crashed", "error")


def test_a_dataset_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    told = answer(tmp_path, python=sys.executable)
    (finding,) = told.findings
    assert (finding.rule, told.total, told.valid) == ("dataset", 0, 0)
    assert "none.jsonl: cannot be read (No such file or directory); nothing can be held against it" in finding.message


def test_an_engine_of_ones_own_has_no_outputs_that_are_known(tmp_path: Path) -> None:
    (finding,) = answer(tmp_path, python=sys.executable, engine="command").findings
    assert finding.rule == "engine"


def test_samples_are_missing_where_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"input_ids": [1], "loss_mask": [1]}\n' * 60)
    told = answer(tmp_path, python=sys.executable, dataset=str(tmp_path / "d.jsonl"))
    assert (told.total, told.missing, told.valid, len(told.findings)) == (60, 60, 0, 50)
    assert told.findings[0].message == "data_0.pt is missing; run extract again: it recomputes only this sample"
    assert told.findings[0].file == str(tmp_path / "o" / "data_0.pt")
