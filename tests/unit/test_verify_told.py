"""What `verify` tells a person."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from local.errors import JobFailed
from local.tasks import verify
from remote.schema import Finding, VerifyAnswer


def session() -> Any:
    console = Console(file=io.StringIO(), width=100)
    job = SimpleNamespace(output="/data/out")
    return SimpleNamespace(values={}, word="", job=job, console=console, label="", alone=True, name="gpu01")


def answer(valid: int, missing: int, *findings: Finding, damaged: int = 0) -> VerifyAnswer:
    total = valid + missing + damaged
    return VerifyAnswer(
        total=total, valid=valid, missing=missing, damaged=damaged, extra=0, tokens=10, size=10, findings=findings
    )


def test_an_empty_folder_is_told_in_one_line() -> None:
    place = session()
    lost = [Finding(rule="sample-missing", message=f"no file {index}") for index in range(50)]
    with pytest.raises(JobFailed, match="none of the 64 samples is in /data/out"):
        verify.check(place, answer(0, 64, *lost))
    assert place.console.file.getvalue() == ""


def test_what_is_damaged_is_told_one_by_one() -> None:
    place = session()
    with pytest.raises(JobFailed, match="1 missing, 1 damaged"):
        verify.check(place, answer(2, 1, Finding(rule="sample-damaged", message="data_7.pt is cut short"), damaged=1))
    assert "data_7.pt is cut short" in place.console.file.getvalue()


def test_whole_outputs_are_told_with_their_place() -> None:
    place = session()
    verify.check(place, answer(3, 0))
    assert "3 of 3 samples valid" in place.console.file.getvalue()
    assert "/data/out" in place.console.file.getvalue()
