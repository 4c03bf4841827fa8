"""What a host says of its files is input: ranges that are none, or of samples that are not there, are a fault of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local import runs
from local.errors import PayloadCrashed
from remote.schema import Job, VerifyAnswer

JOB = Job(name="j", engine="speculators", python="/p", workdir="/w", output="/o")


def said(**changes: Any) -> VerifyAnswer:
    counts = {"total": 9, "valid": 9, "missing": 0, "damaged": 0, "extra": 0, "tokens": 9, "size": 9, "whole": 9}
    answer = VerifyAnswer(**{**counts, "ranges": "0-8", **changes})
    host: Any = SimpleNamespace(name="gpu01", call=lambda *_, **__: answer)
    return runs.verify(host, JOB, bundle="b")


def test_what_can_be_understood_is_passed_on() -> None:
    assert said().ranges == "0-8"
    assert said(damaged_ranges="3").damaged_ranges == "3"


@pytest.mark.parametrize(
    "changes",
    [{"ranges": "all"}, {"ranges": "0-9"}, {"damaged_ranges": "9"}, {"ranges": "3-1"}, {"ranges": "0-99999999999"},
     {"whole": 0}, {"whole": 1 << 62}, {"whole": -1, "ranges": ""}, {"damaged_ranges": "\x1b[31m"}],
)  # fmt: skip
def test_ranges_that_cannot_be_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PayloadCrashed, match="gpu01"):
        said(**changes)
