"""Samples that are larger than the session may write."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from remote.gate import filelimit


@pytest.mark.parametrize(
    ("largest", "limit", "refused"), [(117_000_000, -1, False), (100, 100, False), (101, 100, True), (1, 0, True)]
)
def test_a_sample_that_may_not_be_written_whole_is_an_error(largest: int, limit: int, *, refused: bool) -> None:
    found = list(filelimit.findings(largest, limit, "/out"))
    assert [(one.rule, one.severity, one.file) for one in found] == [
        ("output-file-limit", "error", "/out") for _ in range(refused)
    ]


def test_the_limit_is_the_sessions() -> None:
    asked = [sys.executable, "-c", "from remote.gate import filelimit; print(filelimit.here())"]

    def smaller() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))

    done = subprocess.run(asked, preexec_fn=smaller, capture_output=True, text=True, check=True)
    assert done.stdout == "8192\n"
