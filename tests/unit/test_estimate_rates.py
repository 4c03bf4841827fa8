"""Rates from the events of earlier runs."""

import json
import os
from pathlib import Path

import pytest

from remote.gate import rates
from remote.gate.estimate import Rates
from remote.schema import Job

LOADING = {"event": "phase", "phase": "loading"}
EXTRACTING = {"event": "phase", "phase": "extracting"}


def _at(time: float, event: dict[str, object]) -> dict[str, object]:
    return {"time": time, **event}


def _progress(time: float, tokens: object) -> dict[str, object]:
    return {"time": time, "event": "progress", "tokens": tokens}


RUN = [_at(100, LOADING), _at(150, EXTRACTING), _progress(151, 1000), _progress(161, 6000)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (RUN, (50, 500.0)),
        ([], (None, None)),
        ([_at(1, LOADING)], (None, None)),
        ([_at(1, EXTRACTING)], (None, None)),
        ([_progress(1, 5), _progress(2, 100)], (None, None)),  # too short to be a rate
        ([_progress(1, 5), _progress(20, 5)], (None, None)),
        ([_progress(1, "many"), _progress(20, None)], (None, None)),
        ([{"event": "phase", "phase": "loading"}, {"time": "soon"}], (None, None)),
        # a second attempt starts its own count: what the first had done is no work of it
        ([*RUN, _at(200, LOADING), _at(230, EXTRACTING), _progress(231, 6000), _progress(241, 7000)], (30, 100.0)),
    ],
)
def test_times_of_a_run(events: list[dict[str, object]], expected: tuple[float | None, float | None]) -> None:
    assert rates.times(events) == expected


NAMES = {"other": 1, "wider": 2, "torn": 3, "empty": 4, "one": 5, "two": 6, "older": 7, "newer": 8}


def _write(job: Job, name: str, events: bytes, **changes: object) -> None:
    run = Path(job.workdir) / "runs" / f"20260101-0000{NAMES[name]:02d}-abcd"
    run.mkdir(parents=True)
    said = {"model": job.model, "engine": job.engine, "tensor_parallel": 1, "device": "cuda", **changes}
    (run / "job.json").write_text(json.dumps({"job": said}))
    (run / "events.jsonl").write_bytes(events)


def test_only_runs_alike_count_and_torn_files_are_passed_over(tmp_path: Path) -> None:
    job = Job(name="j", engine="speculators", python="p", workdir=str(tmp_path), output="o", model="/m")
    assert rates.measured(job, 1000) == Rates()
    good = b"".join(json.dumps(event).encode() + b"\n" for event in RUN)
    _write(job, "other", good, model="/other")
    _write(job, "wider", good, tensor_parallel=8)
    assert rates.measured(job, 1000) == Rates()
    _write(job, "torn", good + b'{"time": 9\n[]\n\xff\n')
    assert rates.measured(job, 1000) == Rates(load=20.0, tokens=500.0)
    (tmp_path / "runs" / f"20260101-0000{NAMES['empty']:02d}-abcd").mkdir()
    assert rates.measured(job, 1000) == Rates(load=20.0, tokens=500.0)


def _verdict(path: str = "/m", width: int = 1, **thin: object) -> list[dict[str, object]]:
    seen = {"tokens_per_second": 6000, "layers_kept": [0, 3, 59], **thin}
    return [
        {"id": "reach", "facts": {}},
        {"id": "inputs", "facts": {"model": {"path": path, "layers": 60}}},
        {"id": "rehearsal", "facts": {"tensor_parallel": width, "thin": seen}},
    ]


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        (_verdict(), 300.0),
        (_verdict("/other"), None),
        (_verdict(width=8), None),
        (_verdict(tokens_per_second="fast"), None),
        (_verdict(tokens_per_second=0), None),
        (_verdict(layers_kept=[]), None),
        (_verdict()[:2], None),
        ([{"id": "rehearsal", "facts": {"thin": None}}], None),
        ([], None),
        (None, None),
        ([7], None),
    ],
)
def test_a_rehearsal_at_the_real_sizes_promises_a_rate_for_all_layers(checks: object, expected: float | None) -> None:
    job = Job(name="j", engine="speculators", python="p", workdir="w", output="o", model="/m")
    assert rates.rehearsed(checks, job) == expected


def test_a_run_outweighs_a_rehearsal_and_damaged_verdicts_are_passed_over(tmp_path: Path) -> None:
    job = Job(name="j", engine="speculators", python="p", workdir=str(tmp_path), output="o", model="/m")
    (tmp_path / "verdicts").mkdir()
    (tmp_path / "verdicts" / "torn.json").write_text('{"checks": [')
    (tmp_path / "verdicts" / "list.json").write_text("[]")
    assert rates.measured(job, 1000) == Rates()
    (tmp_path / "verdicts" / "good.json").write_text(json.dumps({"checks": _verdict()}))
    assert rates.measured(job, 1000) == Rates(tokens=300.0, shown_by="rehearsal")
    _write(job, "one", b"".join(json.dumps(event).encode() + b"\n" for event in RUN), device="cpu")
    assert rates.measured(job, 1000).shown_by == "rehearsal", "of another device"
    _write(job, "two", b"".join(json.dumps(event).encode() + b"\n" for event in RUN), device=job.device)
    assert rates.measured(job, 1000) == Rates(load=20.0, tokens=500.0)


def test_the_run_begun_last_counts_whatever_the_clock_says(tmp_path: Path) -> None:
    job = Job(name="j", engine="speculators", python="p", workdir=str(tmp_path), output="o", model="/m")
    slow = [_at(100, LOADING), _at(200, EXTRACTING), _progress(201, 1000), _progress(211, 2000)]
    for name, events, changed in (("older", slow, 2**33), ("newer", RUN, 1)):
        _write(job, name, b"".join(json.dumps(event).encode() + b"\n" for event in events))
        os.utime(tmp_path / "runs" / f"20260101-0000{NAMES[name]:02d}-abcd", (changed, changed))
    assert rates.measured(job, 1000) == Rates(load=20.0, tokens=500.0)
