from __future__ import annotations

import json

import pytest

from local import history
from local.errors import Unreachable
from remote.schema import RunStatus, Samples


def run(name: str, phase: str = "done", **changes: object) -> RunStatus:
    given = {"started": 100.0, "last_seen": 460.0, "samples": Samples(total=9, done=9), **changes}
    return RunStatus(run=name, phase=phase, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (run("a"), 360.0),
        (run("a", "lost"), 360.0),
        (run("a", "extracting"), 900.0),
        (run("a", started=None), None),
        (run("a", last_seen=None), None),
        (run("a", last_seen=50.0), 0.0),
    ],
)
def test_a_run_that_has_ended_takes_no_more_time(status: RunStatus, seconds: float | None) -> None:
    assert history.seconds(status, now=1000.0) == seconds


def test_runs_of_all_hosts_come_newest_first() -> None:
    found = {"b": [run("20260103"), run("20260101")], "a": [run("20260102"), run("20260103")]}
    rows = [(host, status.run) for host, status in history.newest_first(found)]
    assert rows == [("b", "20260103"), ("a", "20260103"), ("a", "20260102"), ("b", "20260101")]


def test_the_document_has_prices_where_they_are_known_and_errors_where_there_is_no_answer() -> None:
    found = {"a": [run("20260102", job="j", shard="0-8")], "b": [run("20260101")], "c": Unreachable("no answer")}
    told = json.loads(json.dumps(history.document(found, {"a": 36.0}, now=1000.0)))
    assert told["schema"] == 1
    assert told["hosts"]["c"] == {"runs": None, "error": {"kind": "Unreachable", "message": "no answer"}}
    (first,) = told["hosts"]["a"]["runs"]
    assert (first["seconds"], first["usd"], first["shard"], first["job"]) == (360.0, 3.6, "0-8", "j")
    assert first["samples"] == {"total": 9, "done": 9, "failed": 0}
    assert told["hosts"]["b"]["runs"][0]["usd"] is None
