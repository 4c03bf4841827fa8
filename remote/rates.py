"""How fast this host has loaded and extracted before: rates from the events of runs that stand in the workdir."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.estimate import Rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.schema import Job

LOOKED_AT = 20  # runs, the newest first
LEAST = 5.0  # seconds of extracting that make a rate worth having


def measured(job: Job, weights: int) -> Rates:
    """Give the rates of the newest runs of the same model, width and device; None for what no run has shown."""
    load = tokens = None
    for run in _runs(Path(job.workdir).expanduser() / "runs"):
        if not _alike(run / "job.json", job):
            continue
        seconds, rate = times(_events(run / "events.jsonl"))
        load = load or (weights / seconds if seconds else None)
        tokens = tokens or rate
        if load and tokens:
            break
    return Rates(load=load, tokens=tokens)


def times(events: Iterable[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Give the seconds of a run's last complete load, and the tokens per second of its last extraction."""
    began = load = rate = None
    first: tuple[float, int] | None = None
    for event in events:
        when, name = event.get("time"), event.get("event")
        if not isinstance(when, int | float):
            continue
        if name == "phase" and event.get("phase") == "loading":
            began, first = when, None
        elif name == "phase" and event.get("phase") == "extracting" and began is not None:
            load, began = when - began, None
        elif name == "progress" and type(event.get("tokens")) is int:
            first = first or (when, event["tokens"])
            seconds, tokens = when - first[0], event["tokens"] - first[1]
            rate = tokens / seconds if seconds >= LEAST and tokens > 0 else rate
    return load if load and load > 0 else None, rate


def _runs(folder: Path) -> list[Path]:
    try:
        found = [(run.stat().st_mtime, run) for run in folder.iterdir() if run.is_dir()]
    except OSError:
        return []
    return [run for _, run in sorted(found, reverse=True)[:LOOKED_AT]]


def _alike(file: Path, job: Job) -> bool:
    """Say whether a run was of a job that loads and extracts as this one does."""
    try:
        other = json.loads(file.read_text("utf-8"))["job"]
        return all(other.get(name) == getattr(job, name) for name in ("model", "engine", "tensor_parallel", "device"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _events(file: Path) -> Iterator[dict[str, Any]]:
    try:
        with file.open("rb") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the torn line of a crash
                if isinstance(event, dict):
                    yield event
    except OSError:
        return
