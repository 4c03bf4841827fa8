"""Watching: what a pulse tells of a host and its run, and what the supervisor notes of both."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.schema.run import RunStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReading:
    """One card now; None is "not told" (a card cut by MIG tells no utilisation), `trouble` why it tells nothing."""

    index: int
    name: str = ""
    utilisation: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: int | None = None
    mig: bool = False
    trouble: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReadings:
    """The cards as they were `age` seconds ago; `pending` is for how long a newer answer has been waited for."""

    gpus: tuple[GpuReading, ...] = ()
    error: str | None = None
    age: float | None = None
    pending: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DiskLeft:
    """The file system of `path` as it was `age` seconds ago; `pending` as above."""

    path: str
    free: int | None = None
    total: int | None = None
    age: float | None = None
    pending: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """How far a run had come at a time of the host's clock."""

    time: float
    attempt: int
    samples: int
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PulseRequest:
    """`run` None asks for the latest; `output` is looked at where there is no run that names its own."""

    workdir: str
    run: str | None = None
    output: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PulseAnswer:
    """`run` is None where there is none; `line` is the last whole line of its log, as it came."""

    now: float
    took: float
    run: RunStatus | None = None
    gpus: GpuReadings = field(default_factory=GpuReadings)
    disk: DiskLeft | None = None
    load: float = 0.0
    cpus: int = 0
    line: str = ""
    points: tuple[Point, ...] = ()
    events_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Vitals:
    """One line of vitals.jsonl; docs/monitor.md tells it to those who draw from it."""

    time: float
    attempt: int
    phase: str
    samples: int
    failed: int
    tokens: int
    disk_free: int | None = None
    gpus: tuple[GpuReading, ...] = ()
    gpu_error: str | None = None
