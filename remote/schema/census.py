"""The census: what each host of a job has, before the missing samples are dealt."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.schema.job import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class CensusRequest:
    """Ask what stands and what runs; `deadline` bounds the tokenising of a dataset that was not counted before."""

    job: Job
    secrets: dict[str, str] = field(default_factory=dict)
    deadline: float = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CensusAnswer:
    """What a host has of a job's dataset. Samples are told as ranges (`0-99,105`), lengths packed (remote/ranges.py).

    `dataset` names tokens and masks of all samples in order, `model` the model, `folder` the output folder.
    `standing` are the samples whose file stands by name, size and manifest; `run` is alive on the output folder and
    works on the samples `working`. `tokens_per_second` and `load_seconds` are measured on earlier runs (None: never).
    `room` is for so many tokens more on the output's file system (None: not known).
    `busy` says why this host can be dealt nothing, `trouble` why there is no census at all.
    """

    total: int = 0
    lengths: str = ""
    dataset: str = ""
    model: str = ""
    folder: str = ""
    standing: str = ""
    working: str = ""
    run: str | None = None
    tokens_per_second: float | None = None
    load_seconds: float | None = None
    room: int | None = None
    busy: str = ""
    trouble: str = ""
