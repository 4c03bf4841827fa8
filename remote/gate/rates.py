"""How fast this host has loaded and extracted before: rates from the events of runs that stand in the workdir.

Where no run has extracted yet, the last rehearsal at the model's real sizes tells: it has few of the layers, and a
token takes the longer the more there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote import files, wire
from remote.gate.estimate import Rates
from remote.run import runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from remote.schema import Job

LOOKED_AT = 20  # runs, the newest first
LEAST = 5.0  # seconds of extracting that make a rate worth having


def measured(job: Job, weights: int) -> Rates:
    """Give the rates of the newest runs of the same model, width and device; None for what no run has shown."""
    load = tokens = None
    for run in runs.folders(str(Path(job.workdir).expanduser()))[:LOOKED_AT]:
        if not _alike(Path(run.job), job):
            continue
        seconds, rate = times(_events(Path(run.events)))
        load = load or (weights / seconds if seconds else None)
        tokens = tokens or rate
        if load and tokens:
            break
    if tokens is None and (rehearsed := _rehearsed(job)) is not None:
        return Rates(load=load, tokens=rehearsed, shown_by="rehearsal")
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


def rehearsed(checks: Any, job: Job) -> float | None:
    """Give the tokens per second that a stored verdict's rehearsal at the real sizes promises for this job."""
    try:
        facts = {check["id"]: check["facts"] for check in checks}
        model, thin = facts["inputs"]["model"], facts["rehearsal"]["thin"]
        alike = (model["path"], facts["rehearsal"]["tensor_parallel"]) == (job.model, job.tensor_parallel)
        rate = thin["tokens_per_second"] * len(thin["layers_kept"]) / model["layers"] if alike else 0.0
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    return float(rate) if rate > 0 else None


def _rehearsed(job: Job) -> float | None:
    for verdict in _newest_verdicts(Path(job.workdir).expanduser() / "verdicts"):
        try:
            checks = wire.parse(files.read(verdict).decode("utf-8"))["checks"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if (rate := rehearsed(checks, job)) is not None:
            return rate
    return None


def _newest_verdicts(folder: Path) -> list[Path]:
    try:
        found = [(entry.stat().st_mtime, entry) for entry in folder.glob("*.json")]
    except OSError:
        return []
    return [entry for _, entry in sorted(found, reverse=True)[:LOOKED_AT]]


def _alike(file: Path, job: Job) -> bool:
    """Say whether a run was of a job that loads and extracts as this one does."""
    try:
        other = wire.parse(files.read(file).decode("utf-8"))["job"]
        return all(other.get(name) == getattr(job, name) for name in ("model", "engine", "tensor_parallel", "device"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _events(file: Path) -> Iterator[dict[str, Any]]:
    try:
        with files.opened(file) as lines:
            for line in lines:
                try:
                    event = wire.parse(line)
                except ValueError:
                    continue  # the torn line of a crash
                if isinstance(event, dict):
                    yield event
    except OSError:
        return
