from __future__ import annotations

import json
from dataclasses import replace

import pytest

from local.errors import LinkLost
from local.host import Reached
from local.runs import by_our_clock, document
from remote.schema import RunStatus, Samples

REACHED = Reached(python_version="3.12.3", home="/root", user="root", now=0.0, workdir="/w", bundles=())


def test_the_status_document_has_the_published_shape() -> None:
    run = RunStatus(
        run="20260101-000000-abcd", phase="extracting", attempt=2, pid=7, started=1.0, last_seen=2.0, output="/out",
        samples=Samples(total=9, done=3, failed=1), log_bytes=12,
    )  # fmt: skip
    shown = document({"gpu01": run, "gpu02": LinkLost("no answer"), "gpu03": None}, {"gpu01": 36.0}, now=101.0)
    assert json.loads(json.dumps(shown)) == {
        "schema": 1,
        "hosts": {
            "gpu01": {
                "run": "20260101-000000-abcd", "phase": "extracting", "attempt": 2, "pid": 7, "started": 1.0,
                "last_seen": 2.0, "output": "/out", "samples": {"total": 9, "done": 3, "failed": 1},
                "log_bytes": 12, "exit": None, "cause": None, "seconds": 100.0, "usd": 1.0,
            },
            "gpu02": {
                "run": None, "phase": "unknown", "attempt": None, "pid": None, "started": None, "last_seen": None,
                "output": None, "samples": {"total": 0, "done": 0, "failed": 0}, "log_bytes": 0, "exit": None,
                "cause": "no answer", "seconds": None, "usd": None,
            },
            "gpu03": {
                "run": None, "phase": "unknown", "attempt": None, "pid": None, "started": None, "last_seen": None,
                "output": None, "samples": {"total": 0, "done": 0, "failed": 0}, "log_bytes": 0, "exit": None,
                "cause": "no run on this host", "seconds": None, "usd": None,
            },
        },
    }  # fmt: skip


@pytest.mark.parametrize("ahead", [3 * 86400.0, -400 * 86400.0, 3600.0])
def test_a_runs_times_are_told_by_this_machines_clock(ahead: float) -> None:
    host = 1_800_000_000.0 + ahead
    run = RunStatus(run="r", phase="extracting", started=host - 50, last_seen=host - 2)
    found = by_our_clock(run, replace(REACHED, now=host, asked=1_800_000_000.0))
    assert (found.started, found.last_seen) == (1_800_000_000.0 - 50, 1_800_000_000.0 - 2)
    assert document({"gpu01": found}, {"gpu01": 36.0}, now=1_800_000_000.0)["hosts"]["gpu01"]["seconds"] == 50.0


@pytest.mark.parametrize(("now", "asked"), [(1000.0, 1004.0), (1004.9, 1000.0), (1000.0, 0.0)])
def test_times_are_left_alone_where_clocks_agree_or_nobody_knows(now: float, asked: float) -> None:
    run = RunStatus(run="r", phase="extracting", started=1.0, last_seen=None)
    assert by_our_clock(run, replace(REACHED, now=now, asked=asked)) is run


def test_what_is_not_known_stays_unknown() -> None:
    found = by_our_clock(RunStatus(run="r", phase="unknown"), replace(REACHED, now=9000.0, asked=1000.0))
    assert (found.started, found.last_seen) == (None, None)
