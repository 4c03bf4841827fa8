"""Answers of the verb `pulse`, made by hand after real ones: hosts as a screen may have to show them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from remote.schema import DiskLeft, GpuReading, GpuReadings, Point, PulseAnswer, RunStatus, Samples

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = 1_800_000_000.0
GIB = 2**30


def cards(busy: Sequence[int | None], *, temperature: int | None = 61, mig: bool = False) -> tuple[GpuReading, ...]:
    return tuple(
        GpuReading(
            index=index, name="NVIDIA B200", utilisation=value, memory_used=157 * GIB, memory_total=179 * GIB,
            temperature=temperature, mig=mig,
        )
        for index, value in enumerate(busy)
    )  # fmt: skip


def points(*, tokens_per_second: int = 20_000, seconds: int = 300) -> tuple[Point, ...]:
    return tuple(
        Point(time=NOW - seconds + at, attempt=1, samples=at * 10, tokens=at * tokens_per_second)
        for at in range(0, seconds + 1, 10)
    )


def extracting(**changes: Any) -> PulseAnswer:
    run = RunStatus(
        run="20261130-200000-abcd", phase="extracting", attempt=1, pid=7, started=NOW - 3600, last_seen=NOW - 1,
        output="/data/out", samples=Samples(total=30_000, done=3_000), tokens=6_000_000, tokens_total=60_000_000,
        log_bytes=10_000, job="kimi",
    )  # fmt: skip
    answer = PulseAnswer(
        now=NOW, took=0.1, run=run, load=9.5, cpus=192, line="batch 12 of 99", points=points(), events_bytes=5_000,
        gpus=GpuReadings(gpus=cards([97, 98, 99, 97, 12, 96, 97, 98]), age=1.0),
        disk=DiskLeft(path="/data/out", free=900 * GIB, total=7000 * GIB, age=1.0),
    )  # fmt: skip
    return replace(answer, **changes)


def of_run(answer: PulseAnswer, **changes: Any) -> PulseAnswer:
    assert answer.run is not None
    return replace(answer, run=replace(answer.run, **changes))


B200 = extracting()
MIG = extracting(gpus=GpuReadings(gpus=cards([None, None], mig=True), age=1.0))
NO_GPU = extracting(gpus=GpuReadings(error="not installed: there is no nvidia-smi to run"))
NO_RUN = replace(B200, run=None, line="", points=(), events_bytes=0)
HUNG_SMI = extracting(gpus=GpuReadings(error="no answer from nvidia-smi for 40 s", pending=40.0))
LOST_CARD = extracting(
    gpus=GpuReadings(
        gpus=(*cards([97] * 7), GpuReading(index=7, trouble="GPU requires reset")), error="failed: GPU is lost", age=1.0
    )
)
LOADING = of_run(extracting(points=()), phase="loading", samples=Samples(total=30_000), tokens=0)
FAILED = of_run(extracting(), phase="failed", cause="ValueError: layer 99 of 61", exit=1, last_seen=NOW - 600)
DONE = of_run(
    extracting(),
    phase="done",
    exit=0,
    samples=Samples(total=30_000, done=30_000),
    tokens=60_000_000,
    last_seen=NOW - 60,
)
ALL = {
    "b200": B200, "mig": MIG, "no-gpu": NO_GPU, "no-run": NO_RUN, "hung-smi": HUNG_SMI, "lost-card": LOST_CARD,
    "loading": LOADING, "failed": FAILED, "done": DONE,
}  # fmt: skip
